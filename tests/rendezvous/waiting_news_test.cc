#include "rendezvous/job/waiting_news.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kMany = WaitingNews::kFewNodes + 1;
const std::string kNothing, kOld = "old", kNew = "new";

TEST(WaitingNews, FewNodesAreNotifiedOfEveryChangeAtOnce) {
  WaitingNews news;
  const TimePoint now;
  EXPECT_THAT(news.Choose({{kNothing, {"c"}}, {kOld, {"a"}}, {kNew, {"b"}}}, kNew, 3, now),
              ElementsAre("a", "c"));
  EXPECT_THAT(news.Choose({{kOld, {"a"}}}, kNew, 3, now), ElementsAre("a"));
  EXPECT_FALSE(news.due().has_value());
}

TEST(WaitingNews, ManyNodesAreNotifiedWithPauses) {
  WaitingNews news;
  const TimePoint now;
  EXPECT_THAT(news.Choose({{kOld, {"a", "b"}}}, kNew, kMany, now), ElementsAre("a", "b"));
  EXPECT_THAT(news.Choose({{kOld, {"a"}}, {kNew, {"b"}}}, kNew, kMany, now), IsEmpty());
  ASSERT_TRUE(news.due().has_value());
  EXPECT_EQ(*news.due(), now + WaitingNews::kPause);
  EXPECT_THAT(news.Choose({{kOld, {"a"}}, {kNew, {"b"}}}, kNew, kMany, *news.due()), ElementsAre("a"));
  EXPECT_FALSE(news.due().has_value());
}

TEST(WaitingNews, PauseGrowsWithTheNumberOfNodes) {
  for (const size_t nodes : {size_t{1000}, size_t{5000}}) {
    WaitingNews news;
    const TimePoint now;
    news.Choose({{kOld, {"a"}}}, kNew, nodes, now);
    EXPECT_THAT(news.Choose({{kOld, {"a"}}}, kNew, nodes, now), IsEmpty());
    EXPECT_EQ(news.due(), now + std::chrono::milliseconds(nodes));
  }
}

TEST(WaitingNews, FirstNoticeToANodeIsImmediate) {
  WaitingNews news;
  const TimePoint now;
  news.Choose({{kOld, {"a"}}}, kNew, kMany, now);
  EXPECT_THAT(news.Choose({{kNothing, {"a"}}, {kOld, {"b"}}}, kNew, kMany, now), ElementsAre("a"));
  EXPECT_TRUE(news.due().has_value());
  EXPECT_THAT(news.Choose({}, kNew, kMany, now), IsEmpty());
  EXPECT_FALSE(news.due().has_value());  // no node waits any more
}

TEST(WaitingNews, EmptyNewsIsNotSent) {
  WaitingNews news;
  EXPECT_THAT(news.Choose({{kNothing, {"a"}}}, kNothing, 3, TimePoint()), IsEmpty());
  EXPECT_THAT(news.Choose({{kNothing, {"a"}}}, kNothing, kMany, TimePoint()), IsEmpty());
}

TEST(WaitingNews, IsAValue) {
  WaitingNews a, b;
  EXPECT_EQ(a, b);
  b.Choose({{kOld, {"a"}}}, kNew, kMany, TimePoint());
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(TimePoint()), "news -");
}

}  // namespace
}  // namespace mtrun::rendezvous
