// Training with a device next to the CPU group, between processes (tests/trainers/support/shared_device.h):
// the launcher continues within its notice time after any device fault, and the run does not change.
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/e2e/timed_rows.h"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DeviceTrainingTest : public TrainingRuns, public TimedRows {
 protected:
  static constexpr int kEpochs = 3;
  static constexpr double kAtOnce = 2;  // from a fault to its consequence, in seconds
  static constexpr int kNotice = 3;     // hang_notice

  DeviceTrainingTest() : TimedRows("devices") { same_bits_ = false; }

  /// Trains workers with devices under a fault. A line with `text` must follow the fault within `bound`
  /// seconds. `ended`: checks of the complete training. The run must equal the undisturbed one.
  void Row(const std::string& row, int workers, const std::string& fault, const std::string& text,
           double bound, const std::vector<std::string>& args = {},
           const std::function<void(const std::string& output)>& ended = nullptr) {
    const auto once = [&] {
      const auto training = TrainWithDevices(workers, fault, args);
      ASSERT_TRUE(training->WaitForLine("device fault fired")) << training->Text();
      const auto fired = std::chrono::steady_clock::now();
      ASSERT_TRUE(training->WaitForLine(text)) << training->Text();
      Report(row, Seconds(std::chrono::steady_clock::now() - fired).count(), bound);
      ASSERT_EQ(training->Wait(), 0) << training->Text();
      if (ended) ended(training->Text());
    };
    Tries(once, [this] { std::filesystem::remove_all(folder_.File("devices")); });
    if (!HasFailure()) ExpectUndisturbed("devices", kEpochs);
  }

  std::unique_ptr<Program> TrainWithDevices(int workers, const std::string& fault,
                                            const std::vector<std::string>& args,
                                            support::Overlay environment = {}) {
    if (std::filesystem::create_directory(folder_.File("trainers"))) {
      std::filesystem::create_symlink(support::BinaryFolder() + "/../tests/device_trainer",
                                      folder_.File("trainers") + "/cnnA");
    }
    environment["MTRUN_TRAINER_PATH"] = folder_.File("trainers");
    environment["MTRUN_DEVICE_FAULT"] = fault;
    environment["LOGLEVEL"] = "debug";
    return Train(Words({"--standalone", "--nproc_per_node", absl::StrCat(workers)}, args), "devices", kEpochs,
                 {}, environment);
  }
};

TEST_F(DeviceTrainingTest, WorkerDeathWhileDevicesConnectBlocksNoWorker) {
  Row("worker killed while devices connect, others out of it", 2, "rank=1 sum=0 do=kill",
      "broke while its workers connected", kAtOnce);
}

/// No process has died, and no worker detects the error by itself.
TEST_F(DeviceTrainingTest, DeviceErrorEndsTheGenerationAndNamesTheRank) {
  Row("a device reports an error, all continue", 3, "rank=2 sum=10 do=error", "continuing with 3 workers",
      kAtOnce, {}, [](const std::string& output) {
        EXPECT_THAT(output, HasSubstr("the device of rank 2: the test broke it"));
      });
}

/// Workers that wait for sums report it; the worker whose device hangs waits too, but must be the named one.
TEST_F(DeviceTrainingTest, HungDeviceIsDistinguishedFromWaitingOnes) {
  Row(absl::StrCat("a device hangs, its rank is named, --hang_notice ", kNotice), 3, "rank=1 sum=10 do=hang",
      "rank 1 (local 1) on", kNotice + kAtOnce,
      {"--hang_notice", absl::StrCat(kNotice), "--hang_timeout", "12"}, [](const std::string& output) {
        EXPECT_THAT(output,
                    AllOf(HasSubstr("(--hang_timeout): killing it"), HasSubstr("continuing with 2 workers")));
        for (const absl::string_view line : absl::StrSplit(output, '\n')) {
          // Before their first generation workers have no rank, and may be slow.
          const bool names =
              absl::StrContains(line, ": no progress for ") && !absl::StrContains(line, "no rank yet");
          EXPECT_TRUE(!names || absl::StrContains(line, "rank 1 (local 1) on")) << line;
        }
      });
}

/// The others wait for connected workers, so slow work, up to the update of a first step, is done before.
/// Checked by each worker's own lines.
TEST_F(DeviceTrainingTest, WorkerTakesAFirstStepBeforeItsDeviceConnects) {
  const auto training = TrainWithDevices(2, "", {}, {{"MTRUN_SAY_ORDER", "1"}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  std::map<std::string, std::vector<std::string>> order;
  for (const absl::string_view line : absl::StrSplit(training->Text(), '\n')) {
    for (const std::string what : {" updates weights", " connects a device"}) {
      const size_t begin = line.find("pid "), end = line.find(what);
      if (begin != line.npos && end != line.npos)
        order[std::string(line.substr(begin, end - begin))].push_back(what);
    }
  }
  EXPECT_EQ(order.size(), 2u) << training->Text();
  for (const auto& [worker, events] : order)
    EXPECT_THAT(events, ElementsAre(" updates weights", " connects a device")) << worker;
  ExpectUndisturbed("devices", kEpochs);
}

}  // namespace
}  // namespace mtrun::e2e
