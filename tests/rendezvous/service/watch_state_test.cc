#include "rendezvous/service/watch_state.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

constexpr TimePoint kNow{};

JobView AJob(const std::string& id) {
  JobView job;
  job.settings.job_id = id;
  return job;
}

TEST(WatchStateTest, AgentsAreAskedWithPauses) {
  WatchState state;
  const auto first = state.OnWatched(kNow);
  ASSERT_TRUE(first);
  EXPECT_FALSE(state.OnWatched(kNow + WatchState::kAskPause - Duration(1)));
  const auto second = state.OnWatched(kNow + WatchState::kAskPause);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
}

TEST(WatchStateTest, NewestAnswerOfEachNodeIsKept) {
  WatchState state;
  state.OnUse({"job", "a"}, {.asked = 1}, kNow);
  state.OnUse({"job", "a"}, {.asked = 2}, kNow);
  state.OnUse({"job", "b"}, {.asked = 2}, kNow);
  const auto uses = state.Uses(kNow + Duration(5));
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].use.asked, 2);
  EXPECT_EQ(uses[0].age, Duration(5));
  state.OnNodeGone({"job", "a"});
  EXPECT_EQ(state.Uses(kNow).size(), 1u);
}

TEST(WatchStateTest, EventsAreBoundedAndInOrder) {
  WatchState state;
  for (size_t i = 0; i <= WatchState::kMaxHappenings; ++i) state.OnLine("job", 7, absl::StrCat("line ", i));
  state.OnLine("other", 8, std::string(1 << 20, 'x'));
  const auto all = state.Happenings();
  ASSERT_EQ(all.size(), WatchState::kMaxHappenings + 1);
  EXPECT_EQ(all.front().text, "line 1");
  EXPECT_LT(all[0].number, all[1].number);
  EXPECT_EQ(all.back().job_id, "other");
  EXPECT_LE(all.back().text.size(), kMaxText);
}

TEST(WatchStateTest, OldestJobsAreForgottenBeyondTheLimit) {
  WatchState state;
  for (size_t i = 0; i <= WatchState::kMaxEnded; ++i) {
    const std::string id = absl::StrCat("job", i);
    state.OnLine(id, 0, "begun");
    state.OnEnded(AJob(id), kNow + Duration(i));
  }
  EXPECT_EQ(state.Happenings().size(), WatchState::kMaxEnded);
  EXPECT_EQ(state.Happenings().front().job_id, "job1");
  EXPECT_EQ(state.EndedJobs(kNow).size(), WatchState::kMaxEnded);
}

TEST(WatchStateTest, JobWithANewEventIsNotTheOldest) {
  WatchState state;
  for (size_t i = 0; i < WatchState::kMaxEnded; ++i) state.OnLine(absl::StrCat("job", i), 0, "begun");
  state.OnLine("job0", 0, "a worker failed");
  state.OnLine("another", 0, "begun");
  const auto all = state.Happenings();
  ASSERT_EQ(all.size(), WatchState::kMaxEnded + 1);
  EXPECT_EQ(all.front().job_id, "job0");
  EXPECT_EQ(all[1].job_id, "job2");
}

TEST(WatchStateTest, EndedJobIsShownForTenMinutesOrUntilItRestarts) {
  WatchState state;
  state.OnEnded(AJob("a"), kNow);
  state.OnEnded(AJob("b"), kNow);
  state.OnBegun("b");
  ASSERT_EQ(state.EndedJobs(kNow + std::chrono::minutes(10)).size(), 1u);
  EXPECT_TRUE(state.EndedJobs(kNow + std::chrono::minutes(10) + Duration(1)).empty());
}

}  // namespace
}  // namespace mtrun::rendezvous
