// Tests workers that are drained while they evaluate: the real loop with threads as workers.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/trainers/run/train_loop_fixture.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using testing::MemberResult;
using testing::ThreadMembership;

constexpr char kAllOfIt[] = "1 2 3 4 5 6 e6 7 8 9 10 11 12 e12";

/// Each evaluation has one batch, which belongs to rank 0.
class TrainLoopEvaluationTest : public testing::TrainLoopTest {
 protected:
  /// Sets a grace that is too short for any evaluation.
  void SetUp() override {
    TrainLoopTest::SetUp();
    grace_ = std::chrono::nanoseconds(1);
  }
  /// Returns a hook that drains the member at its report number `report` after `steps` steps. The first
  /// report is of the step, the following ones are of batches that it evaluates.
  static ThreadMembership::Hook Goes(int64_t steps, int report) {
    return [steps, report, reports = 0](ThreadMembership& self, int64_t finished) mutable {
      if (finished == steps && ++reports == report) self.Drain();
    };
  }
  static void ExpectStopped(const MemberResult& result, int64_t steps) {
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_FALSE(result.outcome->complete);
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped,
                HasSubstr(absl::StrCat("told to go: stopped at step ", steps, " of 12; the same command")));
  }
  bool Saved(const std::string& run, int64_t steps) const {
    return std::filesystem::exists(absl::StrCat(folder_.File(run), "/step_", steps, "/DONE"));
  }
  /// Returns the finished steps and evaluations ("e6") in the order of metrics.jsonl.
  std::string Recorded(const std::string& run) const {
    std::string recorded;
    for (const absl::string_view line :
         absl::StrSplit(support::ReadText(folder_.File(run) + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(std::string(line));
      const char* const between = recorded.empty() ? "" : " ";
      if (json.contains("step")) absl::StrAppend(&recorded, between, json["step"].get<int64_t>() + 1);
      if (json.contains("eval")) absl::StrAppend(&recorded, between, "e", json["steps"].get<int64_t>());
    }
    return recorded;
  }
};

TEST_F(TrainLoopEvaluationTest, TrainedStateIsSavedAndTheResumedRunEvaluatesFirst) {
  const at::Tensor reference = TrainAlone();
  EXPECT_EQ(Recorded("alone"), kAllOfIt);
  for (const int report : {1, 2}) {  // after the step has ended, and after the evaluation has started
    const std::string run = absl::StrCat("run", report);
    SCOPED_TRACE(run);
    ExpectStopped(TrainAll(1, run, {{0, Goes(6, report)}})[0], 6);
    EXPECT_TRUE(Saved(run, 6));
    EXPECT_EQ(Recorded(run), "1 2 3 4 5 6");
    for (const MemberResult& result : TrainAll(2, run)) {
      ExpectComplete(result);
      ExpectSameRun(run, result.weight, reference);
    }
    EXPECT_EQ(Recorded(run), kAllOfIt);
    const auto [status, text] = Verify(run);
    EXPECT_EQ(status, 0) << text;
  }
}

TEST_F(TrainLoopEvaluationTest, RemainingMembersRegroupAndEvaluateAgain) {
  const at::Tensor reference = TrainAlone();
  const std::vector<MemberResult> results = TrainAll(3, "run", {{0, Goes(6, 2)}});
  ExpectStopped(results[0], 6);
  for (const int stays : {1, 2}) {
    ExpectComplete(results[static_cast<size_t>(stays)]);
    ExpectSameRun("run", results[static_cast<size_t>(stays)].weight, reference);
  }
  EXPECT_EQ(generations_, 2u);
  EXPECT_EQ(Recorded("run"), kAllOfIt);
}

TEST_F(TrainLoopEvaluationTest, EvaluationFinishesIfTimeIsLeft) {
  for (const Duration grace : {Duration(std::chrono::hours(1)), Duration::zero()}) {
    grace_ = grace;
    const std::string run = absl::StrCat("grace", ToSeconds(grace));
    SCOPED_TRACE(run);
    const std::vector<MemberResult> results = TrainAll(2, run, {{0, Goes(6, 2)}});
    ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
    EXPECT_THAT(results[0].outcome->stopped, HasSubstr("left after step 6, the other workers continue"));
    ExpectComplete(results[1]);
    EXPECT_EQ(Recorded(run), kAllOfIt);
  }
}

TEST_F(TrainLoopEvaluationTest, TestOfTheBestWeightsIsAbandonedToo) {
  validates_ = true;
  const at::Tensor reference = TrainAlone();
  finished_ = 0;
  // After the last step, the last epoch's evaluation reports, and then the test.
  ExpectStopped(TrainAll(1, "run", {{0, Goes(12, 3)}})[0], 12);
  EXPECT_EQ(finished_, 0) << "no results";
  EXPECT_TRUE(Saved("run", 12));
  for (const MemberResult& result : TrainAll(2, "run")) {
    ExpectComplete(result);
    ExpectSameRun("run", result.weight, reference);
  }
  EXPECT_EQ(finished_, 1);
  EXPECT_EQ(Recorded("run"), kAllOfIt);
  const MutexLock lock(mu_);
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[1].test_loss, reports_[0].test_loss);
}

}  // namespace
}  // namespace mtrun::trainers
