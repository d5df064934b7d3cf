#include "rendezvous/waiting_news.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kMany = WaitingNews::kFewNodes + 1;
const std::string kNothing, kOld = "old", kNew = "new";

TEST(WaitingNews, AmongFewNodesEveryChangeIsToldAtOnce) {
  WaitingNews news;
  const TimePoint now;
  EXPECT_THAT(news.Choose({&kNothing, &kOld, &kNew}, kNew, 3, now), ElementsAre(0, 1));
  EXPECT_THAT(news.Choose({&kOld}, kNew, 3, now), ElementsAre(0));
  EXPECT_FALSE(news.due().has_value());
}

TEST(WaitingNews, AmongManyNodesChangesAreToldOnceInAWhile) {
  WaitingNews news;
  const TimePoint now;
  EXPECT_THAT(news.Choose({&kOld, &kOld}, kNew, kMany, now), ElementsAre(0, 1));
  EXPECT_THAT(news.Choose({&kOld, &kNew}, kNew, kMany, now), IsEmpty());
  ASSERT_TRUE(news.due().has_value());
  EXPECT_EQ(*news.due(), now + WaitingNews::kPause);
  EXPECT_THAT(news.Choose({&kOld, &kNew}, kNew, kMany, *news.due()), ElementsAre(0));
  EXPECT_FALSE(news.due().has_value());
}

TEST(WaitingNews, TheFirstNewsOfANodeNeverWaits) {
  WaitingNews news;
  const TimePoint now;
  news.Choose({&kOld}, kNew, kMany, now);
  EXPECT_THAT(news.Choose({&kNothing, &kOld}, kNew, kMany, now), ElementsAre(0));
  EXPECT_TRUE(news.due().has_value());
  EXPECT_THAT(news.Choose({}, kNew, kMany, now), IsEmpty());
  EXPECT_FALSE(news.due().has_value());  // nobody waits any more
}

TEST(WaitingNews, IsAValue) {
  WaitingNews a, b;
  EXPECT_EQ(a, b);
  b.Choose({&kOld}, kNew, kMany, TimePoint());
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(TimePoint()), "news -");
}

}  // namespace
}  // namespace mtrun::rendezvous
