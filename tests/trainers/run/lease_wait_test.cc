// Tests leases that expire in the middle of a run: the real loop with threads as workers.
#include "trainers/run/loop/lease_wait.h"

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/run/loop/best_weights.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using testing::MemberResult;
using testing::ThreadJob;
using testing::ThreadMembership;

/// Lease checks of a member before its service returns, enough for a wrong commit to happen.
constexpr int kLooks = 20;

/// Finished steps of each member. Thread-safe.
class FinishedSteps {
 public:
  void Set(int member, int64_t steps) {
    const std::lock_guard lock(mutex_);
    steps_[member] = steps;
    changed_.notify_all();
  }
  int64_t Of(int member) {
    const std::lock_guard lock(mutex_);
    return steps_[member];
  }
  /// Waits until `member` has finished `steps` steps.
  void Await(int member, int64_t steps) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return steps_[member] >= steps; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, int64_t> steps_;
};

class LeaseWaitTest : public testing::TrainLoopTest {
 protected:
  /// `looks`: how often the member has found its lease expired, this time included.
  using Look = std::function<void(ThreadMembership& self, int looks)>;

  /// Returns a hook for `member`, whose service is first lost after `at` steps; 0: never.
  ThreadMembership::Hook Member(int member, int64_t at = 0, Look look = nullptr) {
    return [this, member, at, look = std::move(look), lost = std::make_shared<bool>(false)](
               ThreadMembership& self, int64_t steps) {
      finished_steps_.Set(member, steps);
      if (at == 0 || steps != at || std::exchange(*lost, true)) return;
      self.LoseService([&self, look, looks = std::make_shared<int>(0)] { look(self, ++*looks); });
    };
  }
  bool Saved(const std::string& run, int64_t step) const {
    return std::filesystem::exists(absl::StrCat(folder_.path(), "/", run, "/step_", step));
  }
  /// Waits until the checkpoint exists: the writing thread may be slower than the following steps, and a
  /// later checkpoint replaces one that waits.
  ::testing::AssertionResult AwaitSaved(const std::string& run, int64_t step) const {
    const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
    while (!Saved(run, step)) {
      if (MonotonicNow() > give_up) return ::testing::AssertionFailure() << "no checkpoint of step " << step;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ::testing::AssertionSuccess();
  }
  std::string LedgerOf(const std::string& run) const {
    return support::ReadText(folder_.File(run) + "/ledger.jsonl");
  }
  /// Returns the ledger when it has `steps` steps; rank 0 writes a line soon after finishing a step.
  std::string AwaitLedger(const std::string& run, int64_t steps) const {
    const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
    std::string ledger = LedgerOf(run);
    const auto lines = [&] {
      return std::vector<std::string>(absl::StrSplit(ledger, "\"ids\":")).size() - 1;
    };
    while (lines() < static_cast<size_t>(steps) && MonotonicNow() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ledger = LedgerOf(run);
    }
    return ledger;
  }

  FinishedSteps finished_steps_;
};

/// A member with a valid lease commits the step whose sums are complete, and waits in the next one.
TEST_F(LeaseWaitTest, MembersCommitOnlyTheCurrentStepAndTheRunContinues) {
  const at::Tensor reference = TrainAlone();
  for (const std::set<int>& lost : std::vector<std::set<int>>{{0}, {1}, {0, 1}}) {
    const std::string run = absl::StrCat("lost", *lost.begin(), lost.size());
    SCOPED_TRACE(run);
    std::barrier all_hold(static_cast<ptrdiff_t>(lost.size()));
    const auto steps_of = [&](int member) { return lost.contains(member) ? 5 : 6; };
    std::string ledger;
    const auto look = [&](ThreadMembership& self, int looks) {
      if (looks == 1) {
        for (const int member : {0, 1}) finished_steps_.Await(member, steps_of(member));
        if (self.assignment().rank == *lost.begin()) ledger = AwaitLedger(run, steps_of(0));
        all_hold.arrive_and_wait();
      }
      for (const int member : {0, 1}) EXPECT_EQ(finished_steps_.Of(member), steps_of(member));
      if (looks < kLooks) return;
      EXPECT_EQ(LedgerOf(run), ledger);
      all_hold.arrive_and_wait();
      self.FindService();
    };
    std::map<int, ThreadMembership::Hook> hooks;
    for (const int member : {0, 1}) hooks[member] = Member(member, lost.contains(member) ? 5 : 0, look);
    for (const MemberResult& result : TrainAll(2, run, hooks)) {
      ExpectComplete(result);
      ExpectSameRun(run, result.weight, reference);
    }
    EXPECT_EQ(generations_, 1u) << "the same step goes on";
    const auto [status, text] = Verify(run);
    EXPECT_EQ(status, 0) << text;
    for (const int member : {0, 1}) finished_steps_.Set(member, 0);
  }
}

/// If only one member holds, the other is a step ahead and hands it over; otherwise the step is repeated.
TEST_F(LeaseWaitTest, StepIsAbandonedIfItsMembershipEnds) {
  const at::Tensor reference = TrainAlone();
  const auto breaks = [](ThreadMembership& self) {
    if (self.assignment().rank == 1) self.BreakGroup();
  };
  const auto ends = [](ThreadMembership& self) { self.EndGeneration(); };
  using End = std::function<void(ThreadMembership & self)>;
  for (const auto& [name, end] : std::map<std::string, End>{{"breaks", breaks}, {"ends", ends}}) {
    for (const bool both : {false, true}) {
      const std::string run = absl::StrCat(name, both ? "_both" : "_one");
      SCOPED_TRACE(run);
      std::atomic<bool> ended = false;
      const auto look = [&, &end = end](ThreadMembership& self, int looks) {
        if (self.generation() > 1) return self.FindService();
        if (looks == 1) finished_steps_.Await(0, both ? 5 : 6);
        if (looks != kLooks) return;
        ended = true;
        end(self);
      };
      for (const MemberResult& result :
           TrainAll(2, run, {{0, Member(0, both ? 5 : 0, look)}, {1, Member(1, 5, look)}})) {
        ExpectComplete(result);
        ExpectSameRun(run, result.weight, reference);
      }
      EXPECT_TRUE(ended);
      EXPECT_EQ(generations_, 2u);
      const auto [status, text] = Verify(run);
      EXPECT_EQ(status, 0) << text;
      for (const int member : {0, 1}) finished_steps_.Set(member, 0);
    }
  }
}

/// Newcomers arrived so quickly after each other that the lease is no longer renewed.
TEST_F(LeaseWaitTest, StepIsAbandonedForTheNextGeneration) {
  const at::Tensor reference = TrainAlone();
  ThreadJob job({0});
  MemberResult late;
  std::thread newcomer;
  const auto look = [&](ThreadMembership& self, int looks) {
    if (self.generation() > 1) return self.FindService();
    if (looks != kLooks) return;
    job.Join(7);
    newcomer = std::thread([&] { late = Train(job, 7, "followed"); });
  };
  MemberResult first = Train(job, 0, "followed", Member(0, 3, look));
  newcomer.join();
  for (const MemberResult* result : {&first, &late}) {
    ExpectComplete(*result);
    ExpectSameRun("followed", result->weight, reference);
  }
  EXPECT_EQ(job.generation(), 2u);
}

/// The spare's lease is not renewed, and its state is not needed.
TEST_F(LeaseWaitTest, SpareOfAFinishedJobSavesNothingAndDoesNotWait) {
  int looks = 0;
  const auto hook = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 3) return;
    self.LoseService([&] { ++looks; });
    self.EndWithSuccess();
  };
  const std::vector<MemberResult> results = TrainAll(1, "spare", {{0, hook}});
  ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
  EXPECT_FALSE(results[0].outcome->complete);
  EXPECT_EQ(results[0].outcome->stopped, "the job has ended");
  EXPECT_LT(looks, kLooks);
  EXPECT_FALSE(Saved("spare", 3));
}

/// The drain signal arrived before the news that the job is done.
TEST_F(LeaseWaitTest, WaitingSpareLearnsThatTheJobIsDone) {
  grace_ = std::chrono::seconds(10);
  int looks = 0;
  const auto hook = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 3) return;
    self.LoseService([&] {
      if (++looks == 3) self.EndWithSuccess();
    });
    self.EndGeneration();
    self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(1, "waits", {{0, hook}});
  ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
  EXPECT_EQ(results[0].outcome->stopped, "told to go");
  EXPECT_EQ(looks, 3);
  EXPECT_FALSE(Saved("waits", 3));
}

/// The member was disconnected when drained; after reconnecting it learns that the others continue.
TEST_F(LeaseWaitTest, DrainedMemberHoldsUntilItLearnsThatOthersContinue) {
  grace_ = std::chrono::minutes(10);
  int looks = 0;
  const auto hook = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 3) return;
    self.LoseService([&] {
      if (++looks == 3) self.LoseJobToOthers();
    });
    self.EndGeneration();
    self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(1, "others", {{0, hook}});
  ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
  EXPECT_FALSE(results[0].outcome->complete);
  EXPECT_EQ(results[0].outcome->signal, 0) << "it exits with 0";
  EXPECT_THAT(results[0].outcome->stopped, HasSubstr("; the job continues on other nodes"));
  EXPECT_EQ(looks, 3);
  EXPECT_FALSE(Saved("others", 3));
}

/// The service's answer ends the generation: the lease is valid again, but the step is not committed.
TEST_F(LeaseWaitTest, AnswerThatEndsTheGenerationDoesNotCommitTheStep) {
  const at::Tensor reference = TrainAlone();
  const auto look = [](ThreadMembership& self, int looks) {
    if (looks < kLooks) return;
    self.EndGeneration();
    self.FindService();
  };
  int64_t steps_before = 0;
  ThreadMembership::Hook member = Member(0, 5, look);
  const auto hook = [&](ThreadMembership& self, int64_t steps) {
    if (self.generation() == 1) steps_before = steps;
    member(self, steps);
  };
  const std::vector<MemberResult> results = TrainAll(1, "answer", {{0, hook}});
  ExpectComplete(results[0]);
  ExpectSameRun("answer", results[0].weight, reference);
  EXPECT_EQ(steps_before, 5);
  EXPECT_EQ(generations_, 2u);
}

TEST_F(LeaseWaitTest, CheckpointsAndEvaluationsWaitToo) {
  const at::Tensor reference = TrainAlone();
  options_.keep_checkpoints = 10;
  for (const int64_t step : {4, 6, 12}) {  // a checkpoint, an epoch's evaluation, the last checkpoint
    const std::string run = absl::StrCat("held", step);
    SCOPED_TRACE(run);
    options_.checkpoint_steps = step == 4 ? 4 : 0;
    int held = 0;
    finished_ = 0;
    const auto look = [&](ThreadMembership& self, int looks) {
      held = looks;
      EXPECT_FALSE(Saved(run, step));
      EXPECT_EQ(finished_, 0) << "no results";
      if (looks == kLooks) self.FindService();
    };
    const auto hook = [&, member = Member(0, step, look)](ThreadMembership& self, int64_t steps) {
      if (steps == step + 1) {
        EXPECT_TRUE(AwaitSaved(run, step));
      }
      member(self, steps);
    };
    const std::vector<MemberResult> results = TrainAll(1, run, {{0, hook}});
    ExpectComplete(results[0]);
    ExpectSameRun(run, results[0].weight, reference);
    EXPECT_EQ(held, kLooks);
    EXPECT_TRUE(Saved(run, step));
    EXPECT_EQ(finished_, 1);
  }
}

/// Writing can take long, so the writing thread checks the lease again before the final rename.
TEST_F(LeaseWaitTest, CheckpointWrittenAfterTheLeaseExpiredIsNotPublished) {
  const at::Tensor reference = TrainAlone();
  options_.checkpoint_steps = 4;
  options_.keep_checkpoints = 10;
  std::atomic<int> asked = 0;
  const auto hook = [&](ThreadMembership& self, int64_t steps) {
    if (steps == 4) self.LoseServiceElsewhere([&] { ++asked; });
  };
  const std::vector<MemberResult> results = TrainAll(1, "late", {{0, hook}});
  ExpectComplete(results[0]);
  ExpectSameRun("late", results[0].weight, reference);
  EXPECT_GE(asked, 1);
  for (int64_t step = 1; step <= 12; ++step) EXPECT_FALSE(Saved("late", step)) << step;
}

TEST_F(LeaseWaitTest, MemberDrainedWhileHoldingSavesNothingAndReportsIt) {
  const at::Tensor reference = TrainAlone();
  const auto look = [](ThreadMembership& self, int looks) {
    if (looks == 3) self.Drain();
  };
  for (const MemberResult& result : TrainAll(2, "gone", {{0, Member(0, 4, look)}, {1, Member(1, 4, look)}})) {
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_FALSE(result.outcome->complete);
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped,
                HasSubstr("told to go: stopped at step 4 of 12, not saved: no rendezvous service has "
                          "answered within fence_timeout"));
  }
  EXPECT_FALSE(Saved("gone", 4));
  for (const MemberResult& result : TrainAll(3, "gone")) {
    ExpectComplete(result);
    ExpectSameRun("gone", result.weight, reference);
  }
}

/// The member waited for a node for longer than its lease, while a service answered all the time.
TEST_F(LeaseWaitTest, MemberDrainedWhileWaitingForOthersSavesItsState) {
  const at::Tensor reference = TrainAlone();
  for (const bool answers : {true, false}) {
    const std::string run = answers ? "answers" : "away";
    SCOPED_TRACE(run);
    grace_ = std::chrono::milliseconds(100);
    const auto hook = [&](ThreadMembership& self, int64_t steps) {
      if (steps != 4) return;
      self.LoseService([] {});
      if (answers) self.FindServiceOutside();
      self.EndGeneration();
      self.Drain();
    };
    const std::vector<MemberResult> results = TrainAll(1, run, {{0, hook}});
    ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
    EXPECT_EQ(results[0].outcome->signal, SIGTERM);
    EXPECT_EQ(Saved(run, 4), answers);
    EXPECT_EQ(results[0].outcome->stopped.find("not saved") == std::string::npos, answers)
        << results[0].outcome->stopped;
    const std::vector<MemberResult> next = TrainAll(1, run);
    ExpectComplete(next[0]);
    ExpectSameRun(run, next[0].weight, reference);
  }
}

/// The writer leaves between an evaluation that both members shared and the writing of the best weights.
TEST_F(LeaseWaitTest, BestWeightsNotWrittenByALeavingWriterAreKept) {
  options_.schedule.base = 0;  // no later epoch is better
  const auto look = [](ThreadMembership& self, int looks) {
    if (looks == kLooks) self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(2, "best", {{0, Member(0, 6, look)}});
  ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
  EXPECT_FALSE(results[0].outcome->complete);
  ExpectComplete(results[1]);
  EXPECT_TRUE(HoldsBest(folder_.File("best"), 6));
}

}  // namespace
}  // namespace mtrun::trainers
