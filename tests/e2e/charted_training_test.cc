// Outputs of a run: one curve for TensorBoard after any death, a page, and a record of the last actions.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/training.h"
#include "tests/support/browser.h"
#include "tests/tensorboard/read_events.h"
#include "tests/tensorboard/read_package.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class ChartedTrainingTest : public TrainingRuns {
 protected:
  /// Expects TensorBoard's losses to equal those of metrics.jsonl, each step once.
  void ExpectOneCurve(const std::string& run, size_t steps) {
    const auto curve =
        tensorboard::CurveOf(tensorboard::ReadEventFolder(folder_.File(run) + "/tb"), "loss/train");
    const auto losses = Losses(run);
    ASSERT_EQ(losses.size(), steps);
    ASSERT_EQ(curve.size(), losses.size());
    for (const auto& [step, loss] : curve) EXPECT_EQ(loss, static_cast<float>(losses.at(step))) << step;
  }
  /// Expects the same of PyPI's tensorboard with each of its readers.
  void ExpectOneCurveByPackage(const std::string& run) {
    const auto losses = Losses(run);
    for (const char* how : {"accumulator", "slow", "fast"}) {
      const auto seen = tensorboard::ReadByPackage(how, folder_.File(run) + "/tb", "loss/train");
      ASSERT_TRUE(seen.contains("points")) << how << ": " << seen;
      EXPECT_EQ(seen["points"].size(), losses.size()) << how;
      int64_t before = -1;
      for (const auto& point : seen["points"]) {
        const int64_t step = point[0];
        EXPECT_GT(step, before) << how;
        ASSERT_TRUE(losses.contains(step)) << how << ": " << step;
        EXPECT_EQ(point[1].get<float>(), static_cast<float>(losses.at(step))) << how << ": " << step;
        before = step;
      }
    }
  }
  /// Waits until that step is in metrics.jsonl.
  testing::AssertionResult Reaches(const std::string& run, int64_t step) const {
    for (const TimePoint end = MonotonicNow() + FromSeconds(kSoon.count()); MonotonicNow() < end;) {
      if (Losses(run).contains(step)) return testing::AssertionSuccess();
      usleep(10'000);  // another process's file gives us no event
    }
    return testing::AssertionFailure() << "no step " << step;
  }
};

TEST_F(ChartedTrainingTest, KilledWriterLeavesOneCurveAndAPageWithTheReason) {
  const auto training = Train({"--standalone", "--nproc_per_node", "3"}, "run", 3, {},
                              {{"MTRUN_FAULTS", "rank=0 step=12 at=backward do=kill"}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  ExpectOneCurve("run", 3 * kStepsPerEpoch);
  const std::string folder = folder_.File("run");
  const std::string page = support::ReadText(folder + "/report.html");
  EXPECT_THAT(page, HasSubstr("membership changes"));
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
  EXPECT_GE(flights, 2);  // from the workers that waited for the dead one
}

TEST_F(ChartedTrainingTest, StoppedAndResumedRunIsOneCurve) {
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

TEST_F(ChartedTrainingTest, LongRunKilledTwiceIsOneCurveInTensorBoard) {
  if (tensorboard::PackagePython().empty()) GTEST_SKIP() << "no tensorboard here: tools/setup --test-tools";
  const std::vector<std::string> two = {"--standalone", "--nproc_per_node", "2"},
                                 saves = {"--checkpoint_steps", "4"};
  // Some steps after a checkpoint, which the next run repeats.
  for (const int64_t step : {5, 13}) {
    const auto killed = Train(two, "run", 3, saves, {{"MTRUN_PACE", "0.5"}});
    ASSERT_TRUE(Reaches("run", step)) << killed->Text();
    killed->Signal(SIGKILL);
    ASSERT_TRUE(mark_.WaitForNone(kSoon));
  }
  const auto last = Train(two, "run", 3, saves);
  ASSERT_EQ(last->Wait(), 0) << last->Text();
  size_t taken_back = 0;
  for (const absl::string_view line :
       absl::StrSplit(support::ReadText(folder_.File("run") + "/metrics.jsonl"), '\n'))
    taken_back += absl::StrContains(line, "\"rewind\"") ? 1 : 0;
  EXPECT_GE(taken_back, 2u);
  ExpectOneCurve("run", 3 * kStepsPerEpoch);
  ExpectOneCurveByPackage("run");
}

TEST_F(ChartedTrainingTest, LongReportOfAStormIsDrawnByABrowser) {
  const auto training = Train({"--standalone", "--nproc_per_node", "4"}, "run", 3, {},
                              {{"MTRUN_FAULTS",
                                "rank=0 step=5 at=backward do=kill; rank=1 step=12 at=backward do=kill; "
                                "rank=2 step=19 at=backward do=kill"}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  Program driver({support::BrowserPython(), support::TestFile("report/report_driver.py"),
                  folder_.File("run") + "/report.html", "3", folder_.path()});
  const auto status = driver.Wait(Seconds(300));
  if (status == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(driver.Text());
  EXPECT_EQ(status, 0) << driver.Text();
  support::KeepPictures(folder_.path());
}

TEST_F(ChartedTrainingTest, NoChartsIfDisabled) {
  const auto training = TrainHere(1, "run", 1, {"--tensorboard=false", "--report=false"});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/tb"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/report.html"));
}

}  // namespace
}  // namespace mtrun::e2e
