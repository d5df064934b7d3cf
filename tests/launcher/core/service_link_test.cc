#include "launcher/core/service_link.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TimePoint At(int second) { return TimePoint(std::chrono::seconds(second)); }

TEST(ServiceLinkTest, OnlyTheFirstConnectionHasADeadline) {
  ServiceLink link(At(5), std::chrono::seconds(10));
  EXPECT_EQ(link.Describe(), "never connected");
  EXPECT_FALSE(link.JoinTimedOut(At(4)));
  EXPECT_TRUE(link.JoinTimedOut(At(5)));
  EXPECT_TRUE(link.Connected());
  EXPECT_FALSE(link.Connected());
  EXPECT_EQ(link.join_deadline(), std::nullopt);
  link.Disconnected(At(6));
  EXPECT_FALSE(link.connected());
  EXPECT_FALSE(link.JoinTimedOut(At(1000)));
  EXPECT_FALSE(link.TakeLeaseEnd(At(1000))) << "no lease was given";
}

TEST(ServiceLinkTest, GivesUpWhenTheServiceIsAwayForAsLongAsALease) {
  ServiceLink link(At(5), std::chrono::seconds(10));
  link.Connected();
  EXPECT_EQ(link.gives_up(), std::nullopt);
  link.Disconnected(At(6));
  link.Disconnected(At(8));  // another attempt failed
  EXPECT_EQ(link.gives_up(), At(16));
  link.Connected();
  EXPECT_EQ(link.gives_up(), std::nullopt);
}

TEST(ServiceLinkTest, GivesUpWithoutLeasesToo) {
  ServiceLink link(At(5), Duration::zero());
  link.Connected();
  link.Disconnected(At(6));
  EXPECT_EQ(link.gives_up(), At(36));
}

TEST(ServiceLinkTest, ALeaseEndsOnceUnlessItIsRenewed) {
  ServiceLink link(At(5), std::chrono::seconds(10));
  link.Connected();
  EXPECT_FALSE(link.Leased(At(30)));
  EXPECT_FALSE(link.Leased(At(40)));
  EXPECT_FALSE(link.Leased(At(35))) << "answers may overtake each other";
  link.Disconnected(At(6));
  EXPECT_EQ(link.lease_ends(), At(40));
  EXPECT_EQ(link.Describe(), "disconnected, with a lease");
  EXPECT_FALSE(link.TakeLeaseEnd(At(39)));
  EXPECT_TRUE(link.TakeLeaseEnd(At(40)));
  EXPECT_FALSE(link.TakeLeaseEnd(At(41)));
  EXPECT_EQ(link.Describe(), "disconnected, its lease has ended");
  EXPECT_TRUE(link.Leased(At(80))) << "the service is back";
  EXPECT_FALSE(link.Leased(At(81)));
}

}  // namespace
}  // namespace mtrun::launcher
