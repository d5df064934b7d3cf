#include "datasets/remote/fetch_plan.h"

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

constexpr TimePoint kStart{};
constexpr Duration kSecond = std::chrono::seconds(1);
using Got = std::optional<FetchId>;

TEST(FetchPlanTest, FilesAreFetchedInTheOrderOfNeed) {
  FetchPlan plan(2);
  plan.Want(1, "s", {"b", "a", "c"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "b"}));
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  EXPECT_EQ(plan.Next(kStart), std::nullopt);  // both connections are busy
  plan.Done({"s", "b"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "c"}));
}

TEST(FetchPlanTest, FileIsFetchedOnceForAnyNumberOfClients) {
  FetchPlan plan(4);
  plan.Want(1, "s", {"a"});
  plan.Want(2, "s", {"a", "b"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  EXPECT_EQ(plan.Next(kStart), Got({"s", "b"}));
  plan.Done({"s", "a"});
  EXPECT_FALSE(plan.IsWanted({"s", "a"}));
  EXPECT_EQ(plan.Next(kStart), std::nullopt);
}

TEST(FetchPlanTest, ClientsAreServedInTurns) {
  FetchPlan plan(4);
  plan.Want(1, "s", {"a", "b"});
  plan.Want(2, "t", {"x", "y"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  EXPECT_EQ(plan.Next(kStart), Got({"t", "x"}));
  EXPECT_EQ(plan.Next(kStart), Got({"s", "b"}));
  EXPECT_EQ(plan.Next(kStart), Got({"t", "y"}));
}

TEST(FetchPlanTest, PausedFileLetsTheNextPass) {
  FetchPlan plan(4);
  plan.Want(1, "s", {"a", "b"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  plan.Pause({"s", "a"}, kStart + kSecond);
  EXPECT_EQ(plan.Next(kStart), Got({"s", "b"}));
  EXPECT_EQ(plan.Next(kStart), std::nullopt);
  EXPECT_EQ(plan.NextLook(kStart), kStart + kSecond);
  EXPECT_EQ(plan.Next(kStart + kSecond), Got({"s", "a"}));
  EXPECT_EQ(plan.NextLook(kStart), std::nullopt);
}

TEST(FetchPlanTest, NothingIsDueWhileAllConnectionsAreBusy) {
  FetchPlan plan(1);
  plan.Want(1, "s", {"a", "b"});
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  plan.Pause({"s", "a"}, kStart);
  EXPECT_EQ(plan.NextLook(kStart), kStart);
  EXPECT_EQ(plan.Next(kStart), Got({"s", "a"}));
  plan.Pause({"s", "b"}, kStart);
  EXPECT_EQ(plan.NextLook(kStart), std::nullopt) << "that one of them ends is heard of without looking";
  plan.Done({"s", "a"});
  EXPECT_EQ(plan.NextLook(kStart), kStart);
}

TEST(FetchPlanTest, DepartedClientWantsNothing) {
  FetchPlan plan(4);
  plan.Want(1, "s", {"a", "b"});
  plan.Pause({"s", "a"}, kStart + kSecond);
  plan.Leave(1);
  EXPECT_EQ(plan.Next(kStart + kSecond), std::nullopt);
  EXPECT_EQ(plan.NextLook(kStart), std::nullopt);
}

TEST(FetchPlanTest, TriesAreCountedUntilOneSucceeds) {
  FetchPlan plan(1);
  const TransferEnd missing{.status = 404};
  EXPECT_EQ(plan.CountTry({"s", "a"}, {.status = 503}), (Tries{.all = 1}));
  EXPECT_EQ(plan.CountTry({"s", "a"}, missing), (Tries{.all = 2, .missing = 1}));
  plan.Done({"s", "a"});
  EXPECT_EQ(plan.CountTry({"s", "a"}, missing), (Tries{.all = 1, .missing = 1}));
}

}  // namespace
}  // namespace mtrun::datasets
