#include "rendezvous/service/lookout.h"

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

TEST(LookoutTest, AgentsAreAskedWithPauses) {
  Lookout lookout;
  const auto first = lookout.OnWatched(kNow);
  ASSERT_TRUE(first);
  EXPECT_FALSE(lookout.OnWatched(kNow + Lookout::kAskPause - Duration(1)));
  const auto second = lookout.OnWatched(kNow + Lookout::kAskPause);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
}

TEST(LookoutTest, TheNewestAnswerOfEachNodeIsKept) {
  Lookout lookout;
  lookout.OnUse({"job", "a"}, {.asked = 1}, kNow);
  lookout.OnUse({"job", "a"}, {.asked = 2}, kNow);
  lookout.OnUse({"job", "b"}, {.asked = 2}, kNow);
  const auto uses = lookout.Uses(kNow + Duration(5));
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].use.asked, 2);
  EXPECT_EQ(uses[0].age, Duration(5));
  lookout.OnNodeGone({"job", "a"});
  EXPECT_EQ(lookout.Uses(kNow).size(), 1u);
}

TEST(LookoutTest, HappeningsAreBoundedAndInOrder) {
  Lookout lookout;
  for (size_t i = 0; i <= Lookout::kMostHappenings; ++i) lookout.OnLine("job", 7, absl::StrCat("line ", i));
  lookout.OnLine("other", 8, std::string(1 << 20, 'x'));
  const auto all = lookout.Happenings();
  ASSERT_EQ(all.size(), Lookout::kMostHappenings + 1);
  EXPECT_EQ(all.front().text, "line 1");
  EXPECT_LT(all[0].number, all[1].number);
  EXPECT_EQ(all.back().job_id, "other");
  EXPECT_LE(all.back().text.size(), kMaxText);
}

TEST(LookoutTest, OfManyJobsTheOldestAreForgotten) {
  Lookout lookout;
  for (size_t i = 0; i <= Lookout::kMostEnded; ++i) {
    const std::string id = absl::StrCat("job", i);
    lookout.OnLine(id, 0, "begun");
    lookout.OnEnded(AJob(id), kNow + Duration(i));
  }
  EXPECT_EQ(lookout.Happenings().size(), Lookout::kMostEnded);
  EXPECT_EQ(lookout.Happenings().front().job_id, "job1");
  EXPECT_EQ(lookout.EndedJobs(kNow).size(), Lookout::kMostEnded);
}

TEST(LookoutTest, AJobThatStillSpeaksIsNotTheOldest) {
  Lookout lookout;
  for (size_t i = 0; i < Lookout::kMostEnded; ++i) lookout.OnLine(absl::StrCat("job", i), 0, "begun");
  lookout.OnLine("job0", 0, "a worker failed");
  lookout.OnLine("another", 0, "begun");
  const auto all = lookout.Happenings();
  ASSERT_EQ(all.size(), Lookout::kMostEnded + 1);
  EXPECT_EQ(all.front().job_id, "job0");
  EXPECT_EQ(all[1].job_id, "job2");
}

TEST(LookoutTest, AnEndedJobIsShownForTenMinutesOrUntilItIsBack) {
  Lookout lookout;
  lookout.OnEnded(AJob("a"), kNow);
  lookout.OnEnded(AJob("b"), kNow);
  lookout.OnBegun("b");
  ASSERT_EQ(lookout.EndedJobs(kNow + std::chrono::minutes(10)).size(), 1u);
  EXPECT_TRUE(lookout.EndedJobs(kNow + std::chrono::minutes(10) + Duration(1)).empty());
}

}  // namespace
}  // namespace mtrun::rendezvous
