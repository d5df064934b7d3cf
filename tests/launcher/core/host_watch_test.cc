#include "launcher/core/host_watch.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;

TimePoint HostAt(double second) { return TimePoint(FromSeconds(second)); }

const rendezvous::ServiceHost kHost{true, {"node1:7000", 77}};

/// Returns a watch that has been connected since 0 s.
HostWatch Connected(bool majority = false) {
  HostWatch watch(majority, milliseconds(1500));
  watch.OnConnected(kHost, HostAt(0));
  return watch;
}

HostWatch Verified(bool majority = false) {
  HostWatch watch = Connected(majority);
  watch.OnLooked(kHost, {.alive = true}, HostAt(0.1));
  return watch;
}

TEST(HostWatch, LiveHostIsProbedUntilItAnswers) {
  HostWatch watch = Connected();
  EXPECT_EQ(watch.Look(HostAt(0)), kHost);
  watch.OnLooked(kHost, {}, HostAt(0.1));
  EXPECT_EQ(watch.Look(HostAt(0.2)), std::nullopt);
  EXPECT_EQ(watch.NextDeadline(), HostAt(0.3));
  EXPECT_EQ(watch.Look(HostAt(0.3)), kHost);
  watch.OnLooked(kHost, {.alive = true}, HostAt(0.4));
  EXPECT_EQ(watch.Look(HostAt(100)), std::nullopt);
  EXPECT_EQ(watch.NextDeadline(), std::nullopt);
}

TEST(HostWatch, ProbesOfAFirewalledHostEnd) {
  HostWatch watch = Connected();
  for (int i = 0; i < HostWatch::kMaxLooks; ++i) watch.OnLooked(kHost, {.dead = true}, HostAt(i));
  EXPECT_EQ(watch.Look(HostAt(100)), std::nullopt);
  watch.OnDisconnected(HostAt(100));
  EXPECT_EQ(watch.Look(HostAt(100)), std::nullopt) << "its refusal would prove nothing";
  EXPECT_FALSE(watch.TakeOver(HostAt(1000)));
}

TEST(HostWatch, RefusalProvesThatTheHostIsDead) {
  HostWatch watch = Verified();
  watch.OnLooked(kHost, {.dead = true}, HostAt(0.2));
  EXPECT_FALSE(watch.TakeOver(HostAt(0.2))) << "while it is there nobody is dead";
  watch.OnDisconnected(HostAt(5));
  EXPECT_EQ(watch.Look(HostAt(5)), kHost);
  watch.OnLooked(kHost, {}, HostAt(5.1));
  EXPECT_FALSE(watch.TakeOver(HostAt(5.1))) << "silent";
  watch.OnLooked(kHost, {.dead = true}, HostAt(5.4));
  EXPECT_TRUE(watch.TakeOver(HostAt(5.4)));
  EXPECT_FALSE(watch.TakeOver(HostAt(5.5))) << "said once";
  EXPECT_EQ(watch.Look(HostAt(6)), std::nullopt);
}

TEST(HostWatch, DescribesItsState) {
  HostWatch watch(false, milliseconds(1500));
  EXPECT_EQ(watch.Describe(HostAt(0)), "no host");
  watch.OnConnected(kHost, HostAt(0));
  EXPECT_EQ(watch.Describe(HostAt(0)), "node1:7000, next look +0.000 s");
  watch.OnLooked(kHost, {.alive = true}, HostAt(0.1));
  EXPECT_EQ(watch.Describe(HostAt(1)), "node1:7000 has answered");
  watch.OnDisconnected(HostAt(5));
  EXPECT_EQ(watch.Describe(HostAt(6)), "node1:7000 has answered away since -1.000 s, next look -1.000 s");
  watch.OnLooked(kHost, {.dead = true}, HostAt(6));
  EXPECT_TRUE(watch.TakeOver(HostAt(6)));
  EXPECT_EQ(watch.Describe(HostAt(6)), "node1:7000 has answered away since -1.000 s, dead, takeover told");
}

TEST(HostWatch, SilenceCountsFromTheServicesLastMessage) {
  HostWatch watch = Verified(/*majority=*/true);
  watch.OnDisconnected(HostAt(5), milliseconds(1500));
  EXPECT_TRUE(watch.TakeOver(HostAt(5))) << "it was lost because nothing came";
  HostWatch broken = Verified(/*majority=*/true);
  broken.OnDisconnected(HostAt(5), milliseconds(400));
  EXPECT_FALSE(broken.TakeOver(HostAt(6)));
  EXPECT_TRUE(broken.TakeOver(HostAt(6.1)));
}

TEST(HostWatch, EvictionCountsUntilTheHostAnswers) {
  HostWatch watch = Verified();
  watch.OnDisconnected(HostAt(5));
  EXPECT_FALSE(watch.TakeOver(HostAt(60)));
  watch.OnEvicted();
  EXPECT_TRUE(watch.TakeOver(HostAt(60)));
  EXPECT_FALSE(watch.TakeOver(HostAt(61))) << "said once";
  watch.OnConnected(kHost, HostAt(62));
  watch.OnDisconnected(HostAt(63));
  EXPECT_FALSE(watch.TakeOver(HostAt(70))) << "it lives after all";
}

TEST(HostWatch, SilentHostIsReportedOnce) {
  HostWatch watch = Verified();
  EXPECT_EQ(watch.held_due(), std::nullopt);
  watch.OnDisconnected(HostAt(5));
  EXPECT_EQ(watch.held_due(), HostAt(8));
  EXPECT_FALSE(watch.TellHeld(HostAt(7.9)));
  EXPECT_TRUE(watch.TellHeld(HostAt(8)));
  EXPECT_FALSE(watch.TellHeld(HostAt(9)));
  watch.OnConnected(kHost, HostAt(10));
  watch.OnDisconnected(HostAt(20));
  EXPECT_EQ(watch.held_due(), HostAt(23)) << "another time";
  watch.OnLooked(kHost, {.dead = true}, HostAt(21));
  EXPECT_EQ(watch.held_due(), std::nullopt) << "nobody holds";
  HostWatch by_majority = Verified(/*majority=*/true);
  by_majority.OnDisconnected(HostAt(5));
  EXPECT_EQ(by_majority.held_due(), std::nullopt);
}

TEST(HostWatch, NextHostStartsUnverified) {
  HostWatch watch = Verified();
  watch.OnDisconnected(HostAt(5));
  watch.OnLooked(kHost, {.dead = true}, HostAt(5));
  EXPECT_TRUE(watch.TakeOver(HostAt(5)));
  watch.OnConnected({true, {"node2:7000", 78}}, HostAt(6));
  EXPECT_EQ(watch.Look(HostAt(6))->presence.endpoint, "node2:7000");
  watch.OnDisconnected(HostAt(7));
  EXPECT_EQ(watch.Look(HostAt(7)), std::nullopt) << "it has not answered yet";
}

TEST(HostWatch, SilenceSufficesForAMajority) {
  HostWatch watch = Connected(/*majority=*/true);
  EXPECT_FALSE(watch.TakeOver(HostAt(100)));
  watch.OnDisconnected(HostAt(100));
  watch.OnDisconnected(HostAt(101));
  EXPECT_EQ(watch.NextDeadline(), HostAt(101.5));
  EXPECT_FALSE(watch.TakeOver(HostAt(101.4)));
  EXPECT_TRUE(watch.TakeOver(HostAt(101.5)));
  EXPECT_FALSE(watch.TakeOver(HostAt(102)));
}

TEST(HostWatch, StandaloneServiceIsNotTakenOver) {
  HostWatch watch(false, milliseconds(1500));
  watch.OnConnected({false, {}}, HostAt(0));
  watch.OnDisconnected(HostAt(1));
  EXPECT_EQ(watch.Look(HostAt(1)), std::nullopt);
  EXPECT_FALSE(watch.TakeOver(HostAt(100)));
  EXPECT_EQ(watch.NextDeadline(), std::nullopt);
}

TEST(HostWatch, LateProbeResultOfThePreviousHostIsIgnored) {
  HostWatch watch = Connected();
  watch.OnConnected({true, {"node2:7000", 78}}, HostAt(1));
  watch.OnLooked(kHost, {.alive = true}, HostAt(1.1));
  watch.OnDisconnected(HostAt(2));
  EXPECT_EQ(watch.Look(HostAt(2)), std::nullopt) << "it has not answered yet";
}

/// Before it died, its presence port did not answer, but its service did.
TEST(HostWatch, ServiceThatRefusesIsDead) {
  const rendezvous::ServiceHost taker{true, {"node2:7000", 78}, "node2:30001"};
  HostWatch watch(false, milliseconds(1500));
  watch.OnConnected(taker, HostAt(0));
  watch.OnDisconnected(HostAt(1));
  EXPECT_EQ(watch.Look(HostAt(1)), taker);
  watch.OnLooked(taker, {}, HostAt(1.5));
  EXPECT_FALSE(watch.TakeOver(HostAt(1.5)));
  watch.OnLooked(taker, {.dead = true}, HostAt(2));
  EXPECT_FALSE(watch.TakeOver(HostAt(2))) << "it may be a firewall that refuses there";
  watch.OnLooked(taker, {.refused = true}, HostAt(3));
  EXPECT_TRUE(watch.TakeOver(HostAt(3)));
}

/// Another machine can take over the endpoint's address.
TEST(HostWatch, RefusalAtTheEndpointProvesNothing) {
  HostWatch watch = Connected();
  watch.OnDisconnected(HostAt(1));
  EXPECT_EQ(watch.Look(HostAt(1)), std::nullopt);
  watch.OnLooked(kHost, {.refused = true}, HostAt(1));
  EXPECT_FALSE(watch.TakeOver(HostAt(1)));
}

}  // namespace
}  // namespace mtrun::launcher
