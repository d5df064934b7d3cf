// What a run shows: one curve for TensorBoard whatever dies, a page, and a record of what the survivors did
// last.
#include <filesystem>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/training.h"
#include "tests/tensorboard/read_events.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class ChartedTrainingTest : public TrainingRuns {
 protected:
  /// What TensorBoard shows of the losses is what metrics.jsonl says, each step once.
  void ExpectOneCurve(const std::string& run, size_t steps) {
    const auto curve =
        tensorboard::CurveOf(tensorboard::ReadEventFolder(folder_.File(run) + "/tb"), "loss/train");
    const auto losses = Losses(run);
    ASSERT_EQ(losses.size(), steps);
    ASSERT_EQ(curve.size(), losses.size());
    for (const auto& [step, loss] : curve) EXPECT_EQ(loss, static_cast<float>(losses.at(step))) << step;
  }
};

TEST_F(ChartedTrainingTest, AWriterThatIsKilledLeavesOneCurveAndAPageThatSaysWhy) {
  const auto training = Train({"--standalone", "--nproc_per_node", "3"}, "run", 3, {},
                              {{"MTRUN_FAULTS", "rank=0 step=12 at=backward do=kill"}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  ExpectOneCurve("run", 3 * kStepsPerEpoch);
  const std::string folder = folder_.File("run");
  const std::string page = support::ReadText(folder + "/report.html");
  EXPECT_THAT(page, HasSubstr("changes of the membership"));
  EXPECT_THAT(page, HasSubstr("preview.png"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/training_metrics.png"));
  int flights = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string flight = support::ReadText(absl::StrCat(folder, "/flight_", rank, ".jsonl"));
    if (flight.empty()) continue;
    ++flights;
    EXPECT_THAT(flight, HasSubstr("\"step\":11"));
    EXPECT_THAT(flight, HasSubstr("\"what\":\"all-reduce\""));
  }
  EXPECT_GE(flights, 2);  // of those who waited for the one that died
}

TEST_F(ChartedTrainingTest, ARunThatStopsAndGoesOnIsOneCurve) {
  const auto first =
      TrainHere(1, "run", 3, {"--max_steps", "12", "--checkpoint_steps", "4", "--report=false"});
  ASSERT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/report.html"));
  // As if it had been killed before its last checkpoint.
  std::filesystem::remove_all(folder_.File("run") + "/step_12");
  const auto second = TrainHere(2, "run", 3, {"--checkpoint_steps", "4", "--schedule_epochs", "3"});
  ASSERT_EQ(second->Wait(), 0) << second->Text();
  ExpectOneCurve("run", 3 * kStepsPerEpoch);
}

TEST_F(ChartedTrainingTest, NothingWhereItIsNotWanted) {
  const auto training = TrainHere(1, "run", 1, {"--tensorboard=false", "--report=false"});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/tb"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/report.html"));
}

}  // namespace
}  // namespace mtrun::e2e
