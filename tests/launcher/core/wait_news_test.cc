#include "launcher/core/wait_news.h"

#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;

const TimePoint kBegin{std::chrono::hours(1)};

TEST(WaitNews, FirstFormationLogsEachReasonAtOnce) {
  WaitNews news;
  EXPECT_EQ(news.OnReason("1 of 2 nodes is here", /*first=*/true, kBegin), log::Level::kInfo);
  EXPECT_EQ(news.deadline(), std::nullopt);
}

TEST(WaitNews, LaterOnlyAWaitThatLastsIsLogged) {
  WaitNews news;
  EXPECT_EQ(news.OnReason("waiting for node3", /*first=*/false, kBegin), log::Level::kDebug);
  EXPECT_EQ(news.deadline(), kBegin + WaitNews::kPatience);
  EXPECT_EQ(news.Take(kBegin + WaitNews::kPatience - milliseconds(1)), std::nullopt);
  news.Clear();
  EXPECT_EQ(news.Take(kBegin + WaitNews::kPatience), std::nullopt) << "it is over";

  EXPECT_EQ(news.OnReason("waiting for node3", /*first=*/false, kBegin), log::Level::kDebug);
  EXPECT_EQ(news.OnReason("waiting for node4", /*first=*/false, kBegin + milliseconds(500)),
            log::Level::kDebug);
  EXPECT_EQ(news.Take(kBegin + WaitNews::kPatience), "waiting for node4") << "the latest reason";
  EXPECT_EQ(news.Take(kBegin + 2 * WaitNews::kPatience), std::nullopt) << "once";
}

}  // namespace
}  // namespace mtrun::launcher
