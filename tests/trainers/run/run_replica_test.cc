// Tests what a member holds while the states of a run are handed over, with threads as workers.
#include "trainers/run/loop/run_replica.h"

#include <thread>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/program.h"
#include "tests/trainers/support/thread_job.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/run/loop/state_sync.h"

namespace mtrun::trainers {
namespace {

using testing::ThreadJob;
using testing::ThreadMembership;

/// Plays a member at step 5 that sends the first tensor of its state and dies.
void GiveAPartAndDie(ThreadJob& job, int member, const at::Tensor& first) {
  ThreadMembership membership(job, member);
  ASSERT_TRUE(membership.Enter().ok());
  const Assignment& who = membership.assignment();
  ASSERT_TRUE(AgreeOnState(membership.group(), who.rank, who.world_size,
                           {.run = 9, .position = {1, 5, false}}, membership.generation())
                  .ok());
  std::vector<at::Tensor> tensors{first};
  c10d::BroadcastOptions options;
  options.rootRank = who.rank;
  membership.group()->broadcast(tensors, options)->wait();
  membership.BreakGroup();
  job.Gone(member);
}

class RunReplicaTest : public ::testing::Test {
 protected:
  const support::TemporaryFolder folder_;
  torch::nn::Linear network_ = torch::nn::Linear(3, 2);
  TrainState state_{*network_, {.optimizer = {.momentum = 0.9}, .ema_decay = 0.9}};
  RunReplica replica_{RunIdentity(), state_, folder_.path(), MonotonicNow()};
};

TEST_F(RunReplicaTest, BrokenHandoverLeavesThePreviousState) {
  const at::Tensor before = network_->weight.detach().clone();
  ThreadJob job({0, 1});
  std::thread source([&] { GiveAPartAndDie(job, 0, at::full({2, 3}, 7.0)); });
  ThreadMembership membership(job, 1);
  ASSERT_TRUE(membership.Enter().ok());
  const absl::Status broken = replica_.Enter(membership, /*resume=*/true).status();
  source.join();
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_TRUE(network_->weight.detach().equal(before)) << network_->weight;
  EXPECT_FALSE(replica_.exists());

  // No other member holds the run, so it starts with this member's own weights.
  ASSERT_TRUE(membership.Regroup(broken).ok());
  const auto begun = replica_.Enter(membership, /*resume=*/true);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(begun->fresh);
  EXPECT_TRUE(network_->weight.detach().equal(before));
  EXPECT_EQ(replica_.position().steps, 0);
}

TEST_F(RunReplicaTest, MemberThatIsBehindKeepsItsStateIfTheHandoverBreaks) {
  ThreadJob job({0, 1});
  ThreadMembership membership(job, 1);
  std::thread source([&] { GiveAPartAndDie(job, 0, at::full({2, 3}, 7.0)); });
  ASSERT_TRUE(membership.Enter().ok());
  {
    ThreadJob alone({1});
    ThreadMembership first(alone, 1);
    ASSERT_TRUE(first.Enter().ok());
    ASSERT_TRUE(replica_.Enter(first, /*resume=*/false).ok());
  }
  for (int step = 0; step < 4; ++step) replica_.FinishStep();
  const at::Tensor before = network_->weight.detach().clone();
  const uint64_t run = replica_.run();
  const absl::Status broken = replica_.Enter(membership, /*resume=*/true).status();
  source.join();
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_TRUE(network_->weight.detach().equal(before)) << network_->weight;
  EXPECT_EQ(replica_.run(), run);
  EXPECT_EQ(replica_.position().steps, 4);
}

/// This includes memberships of a continued run without any step yet, if the ledger has more steps.
TEST_F(RunReplicaTest, EachMembershipIsItsOwnGeneration) {
  ThreadJob first({0}), second({0});
  ThreadMembership before(first, 0), membership(second, 0);
  ASSERT_TRUE(before.Enter().ok());
  ASSERT_TRUE(replica_.Enter(before, /*resume=*/true).ok());
  replica_.FinishStep();
  const auto snapshot = replica_.TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(checkpoints::WriteCheckpoint(checkpoints::RealFiles(), folder_.path(), *snapshot, "1.1").ok());
  {
    auto ledger =
        checkpoints::Ledger::Open(folder_.path() + "/ledger.jsonl", {.run = replica_.run(), .data = ""});
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ASSERT_TRUE(ledger->Append({.step = 0, .epoch = 1, .generation = 7, .ids = ""}).ok());
  }
  RunReplica again{RunIdentity(), state_, folder_.path(), MonotonicNow()};
  ASSERT_TRUE(membership.Enter().ok());
  for (const uint64_t generation : {8, 9, 10}) {
    ASSERT_TRUE(again.Enter(membership, /*resume=*/true).ok());
    EXPECT_EQ(again.position().steps, 1);
    EXPECT_EQ(again.generation(), generation);
    ASSERT_TRUE(membership.Regroup(absl::OkStatus()).ok());
  }
}

TEST_F(RunReplicaTest, CheckpointWithOtherPixelsIsContinuedWithAWarning) {
  const auto identity = [](const std::string& version) {
    RunIdentity made;
    made.run[kFastPixels] = version;
    return made;
  };
  ThreadJob first({0}), second({0});
  ThreadMembership before(first, 0), membership(second, 0);
  RunReplica replica{identity("2"), state_, folder_.path(), MonotonicNow()};
  ASSERT_TRUE(before.Enter().ok());
  ASSERT_TRUE(replica.Enter(before, /*resume=*/true).ok());
  replica.FinishStep();
  const auto snapshot = replica.TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(checkpoints::WriteCheckpoint(checkpoints::RealFiles(), folder_.path(), *snapshot, "1.1").ok());
  ASSERT_TRUE(membership.Enter().ok());
  for (const std::string& version : {std::string("2"), std::string("3")}) {
    RunReplica again{identity(version), state_, folder_.path(), MonotonicNow()};
    ::testing::internal::CaptureStderr();
    const auto begun = again.Enter(membership, /*resume=*/true);
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(begun.ok()) << begun.status();
    EXPECT_EQ(again.position().steps, 1);
    EXPECT_EQ(said.find("began with version 2 of --decode fast") != std::string::npos, version == "3")
        << said;
    ASSERT_TRUE(membership.Regroup(absl::OkStatus()).ok());
  }
}

/// The member was away while others continued, and returns after they and their service have ended.
/// The bits of a sum over threads depend on their number.
TEST_F(RunReplicaTest, ContinuedRunKeepsTheThreadsThatItBeganWith) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  ThreadJob first({0}), second({0});
  ThreadMembership membership(first, 0), later(second, 0);
  ASSERT_TRUE(membership.Enter().ok());
  RunReplica begun{RunIdentity(), state_, folder_.path(), MonotonicNow()};
  ASSERT_TRUE(begun.Enter(membership, /*resume=*/true).ok());
  begun.SettleThreads(/*given=*/false);
  begun.FinishStep();
  const auto snapshot = begun.TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(checkpoints::WriteCheckpoint(checkpoints::RealFiles(), folder_.path(), *snapshot, "1.1").ok());

  at::set_num_threads(1);
  RunReplica continued{RunIdentity(), state_, folder_.path(), MonotonicNow()};
  ASSERT_TRUE(later.Enter().ok());
  ASSERT_TRUE(continued.Enter(later, /*resume=*/true).ok());
  continued.SettleThreads(/*given=*/false);
  EXPECT_EQ(at::get_num_threads(), 3);

  at::set_num_threads(2);
  continued.SettleThreads(/*given=*/true);
  EXPECT_EQ(at::get_num_threads(), 2) << "the user's";
  EXPECT_EQ(continued.progress().threads, 2) << "which the run has from now on";
  continued.progress().threads = 0;
  continued.SettleThreads(/*given=*/false);
  EXPECT_EQ(continued.progress().threads, 2) << "of a checkpoint of an earlier release";
  continued.progress().threads = int64_t{1} << 40;
  continued.SettleThreads(/*given=*/false);
  EXPECT_EQ(at::get_num_threads(), 2) << "a malformed number";
  at::set_num_threads(before);
}

TEST_F(RunReplicaTest, WorkOfOthersInTheFolderCounts) {
  ThreadJob job({0});
  ThreadMembership membership(job, 0);
  ASSERT_TRUE(membership.Enter().ok());
  ASSERT_TRUE(replica_.Enter(membership, /*resume=*/true).ok());
  EXPECT_EQ(replica_.generation(), 1u);
  {
    auto ledger =
        checkpoints::Ledger::Open(folder_.path() + "/ledger.jsonl", {.run = replica_.run(), .data = ""});
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ASSERT_TRUE(ledger->Append({.step = 0, .epoch = 1, .generation = 20, .ids = ""}).ok());
  }
  ASSERT_TRUE(membership.Regroup(absl::OkStatus()).ok());
  ASSERT_TRUE(replica_.Enter(membership, /*resume=*/true).ok());
  EXPECT_EQ(replica_.generation(), 21u);
  auto snapshot = replica_.TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  snapshot->step = 3;
  snapshot->state = checkpoints::EncodeRunState({.run = replica_.run(),
                                                 .position = {30, 3, false},
                                                 .identity = {},
                                                 .progress = nlohmann::json::object()});
  ASSERT_TRUE(checkpoints::WriteCheckpoint(checkpoints::RealFiles(), folder_.path(), *snapshot, "1.1").ok());
  ASSERT_TRUE(membership.Regroup(absl::OkStatus()).ok());
  ASSERT_TRUE(replica_.Enter(membership, /*resume=*/true).ok());
  EXPECT_EQ(replica_.generation(), 31u);
  EXPECT_EQ(replica_.position().steps, 0) << "what it holds counts, not the checkpoint";
}

}  // namespace
}  // namespace mtrun::trainers
