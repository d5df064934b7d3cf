#include "rendezvous/service/unknown_connections.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(UnknownConnections, CallerIsRemovedAfterItsFirstCall) {
  UnknownConnections unknown({.most = 2, .timeout = seconds(10)});
  EXPECT_EQ(unknown.Add(1, "10.0.0.1:4000", TimePoint()), std::nullopt);
  EXPECT_THAT(unknown.Knows("10.0.0.1:4000"), Optional(1));
  EXPECT_EQ(unknown.Knows("10.0.0.1:4000"), std::nullopt);
  EXPECT_EQ(unknown.size(), 0u);
  EXPECT_EQ(unknown.NextDeadline(), std::nullopt);
}

TEST(UnknownConnections, OthersExpireAfterTheTimeout) {
  UnknownConnections unknown({.most = 9, .timeout = seconds(10)});
  unknown.Add(1, "10.0.0.1:1", TimePoint());
  unknown.Add(2, "10.0.0.1:2", TimePoint() + seconds(1));
  EXPECT_THAT(unknown.NextDeadline(), Optional(TimePoint() + seconds(10)));
  EXPECT_THAT(unknown.Late(TimePoint() + seconds(10) - Duration(1)), IsEmpty());
  EXPECT_THAT(unknown.Late(TimePoint() + seconds(10)), ElementsAre(1));
  EXPECT_THAT(unknown.Late(TimePoint() + seconds(11)), ElementsAre(1, 2));
  EXPECT_THAT(unknown.Remove(1), Optional(std::string("10.0.0.1:1")));
  EXPECT_EQ(unknown.Remove(1), std::nullopt);
  EXPECT_THAT(unknown.NextDeadline(), Optional(TimePoint() + seconds(11)));
}

/// A port is used again as soon as its connection has gone.
TEST(UnknownConnections, PeerIsItsYoungestConnection) {
  UnknownConnections unknown({.most = 9, .timeout = seconds(10)});
  unknown.Add(1, "10.0.0.1:1", TimePoint());
  unknown.Add(2, "10.0.0.1:1", TimePoint());
  unknown.Remove(1);
  EXPECT_THAT(unknown.Knows("10.0.0.1:1"), Optional(2));
}

TEST(UnknownConnections, FloodingPeerDisplacesItsOwnConnections) {
  UnknownConnections unknown({.most = 100, .timeout = seconds(10)});
  unknown.Add(1, "[fe80::1]:1", TimePoint());
  unknown.Add(2, "10.0.0.2:1", TimePoint());
  uint64_t id = 2;
  for (int i = 0; i < 98; ++i)
    EXPECT_EQ(unknown.Add(++id, absl::StrCat("10.0.0.9:", i), TimePoint()), std::nullopt);
  for (int i = 98; i < 1000; ++i) {
    const auto goes = unknown.Add(++id, absl::StrCat("10.0.0.9:", i), TimePoint());
    ASSERT_THAT(goes, Optional(3 + static_cast<uint64_t>(i) - 98)) << "his oldest";
    EXPECT_TRUE(unknown.Remove(*goes));
    EXPECT_EQ(unknown.size(), 100u);
  }
  EXPECT_THAT(unknown.Knows("[fe80::1]:1"), Optional(1));
  EXPECT_THAT(unknown.Knows("10.0.0.2:1"), Optional(2));
}

/// Among peers with equally many connections, the address does not decide.
TEST(UnknownConnections, PeerWithManyAddressesDisplacesItself) {
  UnknownConnections unknown({.most = 10, .timeout = seconds(10)});
  for (uint64_t i = 0; i < 8; ++i) unknown.Add(i, absl::StrCat("10.0.7.", i, ":1"), TimePoint());
  unknown.Add(8, "10.0.0.1:1", TimePoint());
  for (uint64_t i = 9; i < 18; ++i) {
    const auto goes = unknown.Add(i, absl::StrCat("10.0.8.", i, ":1"), TimePoint());
    if (goes) unknown.Remove(*goes);
  }
  EXPECT_THAT(unknown.Knows("10.0.0.1:1"), Optional(8)) << "eight are older";
}

TEST(UnknownConnections, Ipv6NetworkAndLoopbackCountAsOneMachine) {
  for (const char* from : {"[2001:db8::", "127.0.0."}) {
    UnknownConnections unknown({.most = 10, .timeout = seconds(10)});
    unknown.Add(0, "10.0.0.1:1", TimePoint());
    unknown.Add(1, "10.0.0.1:2", TimePoint());
    for (uint64_t i = 2; i < 200; ++i) {
      const std::string peer = absl::StrCat(from, i, *from == '[' ? "]:1" : ":1");
      const auto goes = unknown.Add(i, peer, TimePoint());
      if (goes) unknown.Remove(*goes);
    }
    EXPECT_THAT(unknown.Knows("10.0.0.1:1"), Optional(0)) << from;
    EXPECT_THAT(unknown.Knows("10.0.0.1:2"), Optional(1)) << from;
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
