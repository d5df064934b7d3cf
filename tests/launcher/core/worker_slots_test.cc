#include "launcher/core/worker_slots.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Life = WorkerSlot::Life;

/// Returns `count` running cooperative members, with ranks from 4.
WorkerSlots Running(int count, bool warm_up = false) {
  WorkerSlots slots("node1", warm_up);
  slots.Reset(count);
  slots.AssignRanks(count, 4);
  for (int i = 0; i < count; ++i) {
    slots.Start(i, false);
    slots[i].said_hello = slots[i].cooperative = true;
  }
  return slots;
}

TEST(WorkerSlotsTest, StartKeepsTheRankAndForgetsTheOldProcess) {
  WorkerSlots slots = Running(2);
  slots[1].said_done = true;
  slots.Start(1, true);
  EXPECT_EQ(slots[1], (WorkerSlot{.presumed = true, .rank = 5}));
  EXPECT_EQ(slots.Find(2), nullptr);
  EXPECT_EQ(slots.Find(-1), nullptr);
}

TEST(WorkerSlotsTest, RanksAreGivenToMembersThenWarmThenFreshWorkers) {
  WorkerSlots slots("node1", true);
  slots.Reset(4);
  slots.AssignRanks(0, 0);
  for (int i = 0; i < 4; ++i) slots.Start(i, true);
  slots[0].given_up = true;
  slots[2].warm = true;
  slots[3].rank = 9;
  slots.AssignRanks(2, 6);
  EXPECT_THAT(slots.Members(), ElementsAre(2, 3));
  EXPECT_EQ(slots[2].rank, 6);
  EXPECT_EQ(slots[3].rank, 7);
  EXPECT_THAT(slots.Idle(), ElementsAre(0, 1));
  slots.AssignRanks(3, 0);
  EXPECT_THAT(slots.Members(), ElementsAre(1, 2, 3));
}

TEST(WorkerSlotsTest, GenerationEndRemovesTheRanksOfDeadWorkers) {
  WorkerSlots slots = Running(3);
  slots[0].said_done = slots[1].due = true;
  slots[1].life = Life::kExited;
  slots.AwaitLeftovers(TimePoint(std::chrono::seconds(5)));
  slots.EndGeneration();
  EXPECT_THAT(slots.Members(), ElementsAre(0, 2));
  EXPECT_FALSE(slots[0].done());
  EXPECT_FALSE(slots[1].due);
  EXPECT_EQ(slots.leftovers_deadline(), std::nullopt);
}

TEST(WorkerSlotsTest, SlotIsFilledAfterItsWorkerIsFullyGone) {
  WorkerSlots slots = Running(2);
  slots[1] = WorkerSlot{.life = Life::kExited, .due = true, .rank = 5};
  slots.AwaitLeftovers(TimePoint(std::chrono::seconds(5)));
  EXPECT_THAT(slots.Due(), IsEmpty());
  slots[1].life = Life::kGone;
  EXPECT_THAT(slots.Due(), ElementsAre(1));
  EXPECT_THAT(slots.Vacant(), ElementsAre(1));
  slots.Start(1, true);
  EXPECT_THAT(slots.Due(), IsEmpty());
  EXPECT_EQ(slots.leftovers_deadline(), std::nullopt) << "nobody else is due";
}

TEST(WorkerSlotsTest, LeftoversAreAbandonedOnlyInDueSlots) {
  WorkerSlots slots = Running(2);
  slots[0] = WorkerSlot{.life = Life::kExited, .due = true, .rank = 4};
  slots[1].life = Life::kExited;
  slots.GiveUpOnLeftovers();
  EXPECT_EQ(slots[0].life, Life::kGone);
  EXPECT_EQ(slots[1].life, Life::kExited);
  slots.GiveUpOnAll();
  EXPECT_TRUE(slots.AllAtLeast(Life::kGone));
}

TEST(WorkerSlotsTest, VacantSlotStillBelongsToItsGeneration) {
  WorkerSlots slots = Running(3, true);
  for (int i = 0; i < 3; ++i) slots[i].life = Life::kGone;
  slots[1].rank = -1;
  slots[2].rank = -1;
  slots[2].given_up = true;
  EXPECT_THAT(slots.Vacant(), ElementsAre(1)) << "0 is not reported yet, 2 was given up";
}

TEST(WorkerSlotsTest, CooperativeMeansEveryRunningWorker) {
  WorkerSlots slots = Running(2);
  EXPECT_TRUE(slots.Cooperative());
  slots.Start(1, false);
  EXPECT_FALSE(slots.Cooperative()) << "an ordinary program until it says hello";
  slots.Start(1, true);
  EXPECT_TRUE(slots.Cooperative()) << "presumed";
  slots.Start(0, true);
  EXPECT_FALSE(slots.Cooperative()) << "nobody has said so";
  EXPECT_TRUE(slots.AllRegroup());
  slots.GiveUpOnAll();
  EXPECT_FALSE(slots.Cooperative()) << "nobody runs";
  WorkerSlots trainers("node1", true);
  trainers.Reset(1);
  trainers.Start(0, true);
  EXPECT_TRUE(trainers.Cooperative()) << "trainers are believed";
}

TEST(WorkerSlotsTest, TellsDoneSafeAndExitedMembers) {
  WorkerSlots slots = Running(2);
  slots[0].said_done = slots[1].exited_well = true;
  EXPECT_TRUE(slots.AllMembersDone());
  EXPECT_FALSE(slots.AllMembersSafe());
  EXPECT_TRUE(slots.AnyMemberOut());
  EXPECT_FALSE(slots.AllOut());
  slots[1].rank = -1;
  EXPECT_TRUE(slots.AllMembersSafe()) << "1 is no member any more";
  slots[1].said_leaving = true;
  EXPECT_TRUE(slots.AllOut());
}

TEST(WorkerSlotsTest, LeavingWellNeedsTheMessageAndTheStatus) {
  WorkerSlots slots = Running(1);
  slots[0].said_leaving = true;
  EXPECT_FALSE(slots.AllMembersLeftWell());
  slots[0].exit_code = 0;
  EXPECT_TRUE(slots.AllMembersLeftWell());
  slots[0].rank = -1;
  EXPECT_FALSE(slots.AllMembersLeftWell()) << "nobody left anything";
}

TEST(WorkerSlotsTest, NamesAndText) {
  WorkerSlots slots = Running(2, true);
  slots[1] = WorkerSlot{.life = Life::kExited, .given_up = true};
  EXPECT_EQ(slots.NameOf(0), "rank 4 (local 0) on node1");
  EXPECT_EQ(slots.NameOf(1), "local rank 1 (no rank yet) on node1");
  EXPECT_EQ(slots.Describe(), "workers 0 running, 1 exited given up fresh");
}

}  // namespace
}  // namespace mtrun::launcher
