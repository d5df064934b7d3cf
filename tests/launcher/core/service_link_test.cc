#include "launcher/core/service_link.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TimePoint LinkAt(int second) { return TimePoint(std::chrono::seconds(second)); }

TEST(ServiceLinkTest, OnlyTheFirstConnectionHasADeadline) {
  ServiceLink link(LinkAt(5), std::chrono::seconds(10));
  EXPECT_EQ(link.Describe(), "never connected");
  EXPECT_FALSE(link.JoinTimedOut(LinkAt(4)));
  EXPECT_TRUE(link.JoinTimedOut(LinkAt(5)));
  EXPECT_TRUE(link.Connected());
  EXPECT_FALSE(link.Connected());
  EXPECT_EQ(link.join_deadline(), std::nullopt);
  link.Disconnected(LinkAt(6));
  EXPECT_FALSE(link.connected());
  EXPECT_FALSE(link.JoinTimedOut(LinkAt(1000)));
  EXPECT_FALSE(link.TakeLeaseEnd(LinkAt(1000))) << "no lease was given";
}

TEST(ServiceLinkTest, JoiningNodeWaitsForAnotherServiceAsForTheFirst) {
  ServiceLink link(LinkAt(5), std::chrono::seconds(10));
  EXPECT_TRUE(link.Connected());
  link.Disconnected(LinkAt(20), std::chrono::seconds(5));
  EXPECT_EQ(link.Describe(), "disconnected, waits for the first generation");
  link.Disconnected(LinkAt(24), std::chrono::seconds(5));  // it still is
  EXPECT_FALSE(link.JoinTimedOut(LinkAt(24)));
  EXPECT_TRUE(link.JoinTimedOut(LinkAt(25)));
  EXPECT_FALSE(link.Connected()) << "not the first time";
  EXPECT_FALSE(link.JoinTimedOut(LinkAt(100)));
}

TEST(ServiceLinkTest, GivesUpIfTheServiceIsAwayForALease) {
  ServiceLink link(LinkAt(5), std::chrono::seconds(10));
  link.Connected();
  EXPECT_EQ(link.gives_up(), std::nullopt);
  link.Disconnected(LinkAt(6));
  link.Disconnected(LinkAt(8));  // another attempt failed
  EXPECT_EQ(link.gives_up(), LinkAt(16));
  link.Connected();
  EXPECT_EQ(link.gives_up(), std::nullopt);
}

TEST(ServiceLinkTest, GivesUpWithoutALeaseToo) {
  ServiceLink link(LinkAt(5), Duration::zero());
  link.Connected();
  link.Disconnected(LinkAt(6));
  EXPECT_EQ(link.gives_up(), LinkAt(36));
}

TEST(ServiceLinkTest, LeaseEndsOnceUnlessItIsRenewed) {
  ServiceLink link(LinkAt(5), std::chrono::seconds(10));
  link.Connected();
  EXPECT_FALSE(link.Leased(LinkAt(30)));
  EXPECT_FALSE(link.Leased(LinkAt(40)));
  EXPECT_FALSE(link.Leased(LinkAt(35))) << "answers may overtake each other";
  link.Disconnected(LinkAt(6));
  EXPECT_EQ(link.lease_ends(), LinkAt(40));
  EXPECT_EQ(link.Describe(), "disconnected, with a lease");
  EXPECT_FALSE(link.TakeLeaseEnd(LinkAt(39)));
  EXPECT_TRUE(link.TakeLeaseEnd(LinkAt(40)));
  EXPECT_FALSE(link.TakeLeaseEnd(LinkAt(41)));
  EXPECT_EQ(link.Describe(), "disconnected, its lease has ended");
  EXPECT_TRUE(link.Leased(LinkAt(80))) << "the service is back";
  EXPECT_FALSE(link.Leased(LinkAt(81)));
}

TEST(ServiceLinkTest, ForgottenLeaseDoesNotEnd) {
  ServiceLink link(LinkAt(5), std::chrono::seconds(10));
  link.Leased(LinkAt(30));
  link.ForgetLease();
  EXPECT_EQ(link.lease_ends(), std::nullopt);
  EXPECT_FALSE(link.TakeLeaseEnd(LinkAt(31)));
  EXPECT_FALSE(link.Leased(LinkAt(50))) << "no service was away";
}

}  // namespace
}  // namespace mtrun::launcher
