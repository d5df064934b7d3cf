#include "launcher/core/warm_pool.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using AfterExit = WarmPool::AfterExit;

/// Returns two fresh trainers without ranks; with `member`, trainer 0 is in a generation.
WorkerSlots Fresh(bool member) {
  WorkerSlots slots("node1", true);
  slots.Reset(2);
  for (int i = 0; i < 2; ++i) slots.Start(i, true);
  if (member) slots[0].rank = 0;
  return slots;
}

TEST(WarmPoolTest, ExitIsRetriedTwice) {
  WarmPool pool(2);
  WorkerSlots slots = Fresh(true);
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kRetry);
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kRetry);
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kGiveUpSlot);
  EXPECT_TRUE(slots[1].given_up);
  EXPECT_EQ(pool.Describe(), "offered 0, early exits 0 3");
}

TEST(WarmPoolTest, ReadyWorkerResetsTheRetriesOfItsSlot) {
  WarmPool pool(2);
  WorkerSlots slots = Fresh(true);
  pool.OnExit(1, false, &slots);
  pool.OnExit(1, false, &slots);
  pool.OnReady(1);
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kRetry);
}

TEST(WarmPoolTest, WrongSettingsAreNotRetried) {
  WarmPool pool(2);
  WorkerSlots alone = Fresh(false), beside = Fresh(true);
  EXPECT_EQ(pool.OnExit(1, true, &alone), AfterExit::kGiveUpNode);
  EXPECT_EQ(pool.OnExit(1, true, &beside), AfterExit::kGiveUpSlot);
}

TEST(WarmPoolTest, ExitWith0WithoutMembersMeansNothingToTrain) {
  WarmPool pool(2);
  WorkerSlots slots = Fresh(false);
  slots[1].exit_code = 0;
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kNothingToTrain);
  EXPECT_FALSE(slots[1].given_up);
  slots[0].rank = 0;
  EXPECT_EQ(pool.OnExit(1, false, &slots), AfterExit::kRetry) << "there is a run to join";
}

TEST(WarmPoolTest, NothingIsOfferedBeforeAllAreWarmUnlessAMemberRuns) {
  WorkerSlots slots = Fresh(false);
  EXPECT_EQ(WarmPool::OfferWhileRegrouping(slots), 0);
  slots[0].warm = true;
  EXPECT_EQ(WarmPool::OfferWhileRegrouping(slots), 0);
  slots[1].given_up = true;
  EXPECT_EQ(WarmPool::OfferWhileRegrouping(slots), 1) << "no more will come";
  slots[1].given_up = false;
  slots[1].warm = true;
  EXPECT_EQ(WarmPool::OfferWhileRegrouping(slots), 2);
  WorkerSlots survivor = Fresh(true);
  EXPECT_EQ(WarmPool::OfferWhileRegrouping(survivor), 1) << "it waits for nobody's start";
}

TEST(WarmPoolTest, RunningGenerationAddsAllFreshWorkersTogether) {
  WorkerSlots slots = Fresh(true);
  EXPECT_EQ(WarmPool::OfferWhileRunning(slots, 1), 1);
  slots[1].warm = true;
  EXPECT_EQ(WarmPool::OfferWhileRunning(slots, 1), 2);
  slots[0].life = WorkerSlot::Life::kGone;
  slots[0].given_up = true;
  EXPECT_EQ(WarmPool::OfferWhileRunning(slots, 2), 2) << "a generation does not shrink by an offer";
}

TEST(WarmPoolTest, PlaceholderContainsOnlyThisNode) {
  rendezvous::Offer offer;
  offer.node_id = "me";
  offer.address = "10.0.0.2";
  offer.workers = 3;
  const rendezvous::Assignment assignment = PlaceholderAssignment(offer, 7, 2);
  EXPECT_EQ(assignment.generation.number, 7u);
  EXPECT_EQ(assignment.world_size, 3);
  EXPECT_EQ(assignment.restart_count, 2);
  ASSERT_EQ(assignment.members.size(), 1u);
  EXPECT_EQ(assignment.members[0].node_id, "me");
  EXPECT_EQ(assignment.master_address, "10.0.0.2");
}

}  // namespace
}  // namespace mtrun::launcher
