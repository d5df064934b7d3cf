// Tests a run that continues from a checkpoint: the real loop with threads as workers.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/packed/packed.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/run/loop/agreement.h"
#include "trainers/run/loop/state_sync.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using testing::MemberResult;
using testing::ThreadJob;
using testing::ThreadMembership;

class TrainLoopResumeTest : public testing::TrainLoopTest {
 protected:
  /// Plays a member without a state that dies while the other one reads the newest checkpoint.
  void DieBehindTheClaims(ThreadJob& job, int member) {
    ThreadMembership membership(job, member);
    ASSERT_TRUE(membership.Enter().ok());
    const Assignment& who = membership.assignment();
    const RunIdentity identity = {
        .run = {{"program", "toy"}, {"data", datasets::PackedSplit::Open(data_, "train")->digest()}},
        .generation = {},
        .not_of_run = {}};
    EXPECT_TRUE(CheckAgreement(membership.group(), identity).ok());
    EXPECT_TRUE(AgreeOnState(membership.group(), who.rank, who.world_size, {}, membership.generation()).ok());
    membership.BreakGroup();
    job.Gone(member);
  }
};

TEST_F(TrainLoopResumeTest, GenerationThatBreaksDuringTheReadLosesNoCheckpoint) {
  options_.epochs = 1;
  const auto takes_its_time = [](ThreadMembership& /*self*/, int64_t /*steps*/) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  ASSERT_TRUE(TrainAll(1, "run", {{0, takes_its_time}})[0].outcome.ok());
  options_.epochs = 2;
  ThreadJob job({0, 1});
  std::thread other([&] { DieBehindTheClaims(job, 1); });
  const MemberResult result = Train(job, 0, "run");
  other.join();
  ExpectComplete(result);
  EXPECT_EQ(job.generation(), 2u);
  ASSERT_EQ(reports_.size(), 2u);
  const RunReport &before = reports_[0], &whole = reports_[1];
  ASSERT_EQ(whole.history.size(), 2u);
  EXPECT_EQ(whole.history[0], before.history[0]);
  EXPECT_GT(whole.seconds, before.seconds);
}

TEST_F(TrainLoopResumeTest, StaleRunThatIsStartedAgainSaysThatItEnds) {
  options_.epochs = 4;
  options_.early_stopping_epochs = 1;
  options_.schedule.base = 0;  // no later epoch is better
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    ::testing::internal::CaptureStdout();
    const MemberResult result = TrainAll(1, "run")[0];
    const std::string text = ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_TRUE(result.outcome->complete);
    EXPECT_THAT(text, HasSubstr("no epoch was better than epoch 1 for 1 epoch: the run stops early\n"));
    EXPECT_EQ(text.find("resumed from ") != std::string::npos, again) << text;
  }
}

}  // namespace
}  // namespace mtrun::trainers
