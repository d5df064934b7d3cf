#include "launcher/core/service_link.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TimePoint At(int second) { return TimePoint(std::chrono::seconds(second)); }

TEST(ServiceLinkTest, OnlyTheFirstConnectionHasADeadline) {
  ServiceLink link(At(5), Duration::zero());
  EXPECT_EQ(link.Describe(), "never connected");
  EXPECT_FALSE(link.JoinTimedOut(At(4)));
  EXPECT_TRUE(link.JoinTimedOut(At(5)));
  EXPECT_TRUE(link.Connected());
  EXPECT_FALSE(link.Connected());
  EXPECT_EQ(link.join_deadline(), std::nullopt);
  link.Disconnected(At(6));
  EXPECT_FALSE(link.connected());
  EXPECT_FALSE(link.JoinTimedOut(At(1000)));
  EXPECT_FALSE(link.TakeFence(At(1000))) << "no fence was asked for";
}

TEST(ServiceLinkTest, TheFenceCountsFromTheFirstLossAndIsTakenOnce) {
  ServiceLink link(At(5), std::chrono::seconds(10));
  link.Connected();
  link.Disconnected(At(1));
  link.Disconnected(At(8));
  EXPECT_EQ(link.fence_deadline(), At(11));
  EXPECT_EQ(link.Describe(), "disconnected, fence ahead");
  EXPECT_FALSE(link.TakeFence(At(10)));
  EXPECT_TRUE(link.TakeFence(At(11)));
  EXPECT_FALSE(link.TakeFence(At(12)));
  link.Disconnected(At(13));
  link.Connected();
  EXPECT_EQ(link.fence_deadline(), std::nullopt) << "the service is back";
}

}  // namespace
}  // namespace mtrun::launcher
