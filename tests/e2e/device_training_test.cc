// Training with a device beside the CPU group, between processes (tests/trainers/support/shared_device.h):
// whatever goes wrong on one, the launcher goes on within its notice time, and the run is the undisturbed
// one.
#include <filesystem>

#include "absl/strings/match.h"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DeviceTrainingTest : public TrainingRuns {
 protected:
  static constexpr int kEpochs = 3;
  /// From a fault to what comes of it: 2 s are meant, the rest is for a loaded machine.
  static constexpr Seconds kAtOnce{10};

  std::unique_ptr<Program> TrainWithDevices(int workers, const std::string& fault,
                                            const std::vector<std::string>& args = {}) {
    std::filesystem::create_directory(folder_.File("trainers"));
    std::filesystem::create_symlink(support::BinaryFolder() + "/../tests/device_trainer",
                                    folder_.File("trainers") + "/cnnA");
    return Train(Words({"--standalone", "--nproc_per_node", absl::StrCat(workers)}, args), "devices", kEpochs,
                 {}, {{"MTRUN_TRAINER_PATH", folder_.File("trainers")}, {"MTRUN_DEVICE_FAULT", fault}});
  }
  void ExpectFired(Program& training) {
    ASSERT_TRUE(training.WaitForLine("device fault fired")) << training.Text();
  }
};

TEST_F(DeviceTrainingTest, AWorkerThatDiesWhileDevicesConnectHoldsUpNobody) {
  const auto training = TrainWithDevices(2, "rank=1 sum=0 do=kill");
  ExpectFired(*training);
  EXPECT_TRUE(training->WaitForLine("broke while its workers connected", kAtOnce)) << training->Text();
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  ExpectUndisturbed("devices", kEpochs);
}

/// Nobody has died, and none of the workers finds out by itself.
TEST_F(DeviceTrainingTest, ADevicesErrorEndsTheGenerationAndNamesTheRank) {
  const auto training = TrainWithDevices(3, "rank=2 sum=10 do=error");
  ExpectFired(*training);
  EXPECT_TRUE(training->WaitForLine("continuing with 3 workers", kAtOnce)) << training->Text();
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(), HasSubstr("the device of rank 2: the test broke it"));
  ExpectUndisturbed("devices", kEpochs);
}

/// Who waits for its sums says so; the one whose device hangs waits too, and is the one that is meant.
TEST_F(DeviceTrainingTest, ADeviceThatHangsIsToldFromThoseThatWaitForIt) {
  const auto training =
      TrainWithDevices(3, "rank=1 sum=10 do=hang", {"--hang_notice", "3", "--hang_timeout", "12"});
  ExpectFired(*training);
  EXPECT_TRUE(training->WaitForLine("rank 1 (local 1) on", Seconds(3) + kAtOnce)) << training->Text();
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("(--hang_timeout): killing it"), HasSubstr("continuing with 2 workers")));
  for (const absl::string_view line : absl::StrSplit(training->Text(), '\n')) {
    // Before their first generation workers have no rank, and may be slow.
    const bool names =
        absl::StrContains(line, ": no progress for ") && !absl::StrContains(line, "no rank yet");
    EXPECT_TRUE(!names || absl::StrContains(line, "rank 1 (local 1) on")) << line;
  }
  ExpectUndisturbed("devices", kEpochs);
}

}  // namespace
}  // namespace mtrun::e2e
