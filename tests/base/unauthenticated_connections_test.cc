#include "base/unauthenticated_connections.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(PlaceOfAddress, IsAnIpv4AddressOrAnIpv6Network) {
  EXPECT_EQ(PlaceOfAddress("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(PlaceOfAddress("::ffff:10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(PlaceOfAddress("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(PlaceOfAddress("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_NE(PlaceOfAddress("2001:db8:1:3::9"), "2001:db8:1:2::/64");
  EXPECT_EQ(PlaceOfAddress("fe80::1%eth0"), "fe80::/64");
  for (const char* loopback : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.3"})
    EXPECT_EQ(PlaceOfAddress(loopback), PlaceOfAddress("127.0.0.2")) << loopback;
  EXPECT_EQ(PlaceOfAddress("process 7"), "process 7");
  EXPECT_EQ(PlaceOfAddress(""), "");
}

/// Returns the ids in the order of eviction.
std::string Order(UnauthenticatedConnections connections) {
  std::string order;
  while (connections.size() > 0) {
    const uint64_t first = connections.First();
    absl::StrAppend(&order, order.empty() ? "" : " ", first);
    connections.Remove(first);
  }
  return order;
}

TEST(UnauthenticatedConnections, OldestOfTheLargestAddressIsEvictedFirst) {
  UnauthenticatedConnections connections;
  connections.Add(1, "10.0.0.1");
  connections.Add(2, "10.0.0.9");
  connections.Add(3, "10.0.0.9");
  connections.Add(4, "10.0.0.9");
  EXPECT_EQ(Order(connections), "2 3 1 4");
  connections.Remove(9);
  connections.Remove(4);
  EXPECT_EQ(Order(connections), "2 1 3");
}

TEST(UnauthenticatedConnections, OldestIsEvictedIfAddressesAreEqual) {
  UnauthenticatedConnections connections;
  connections.Add(1, "10.0.0.9");
  connections.Add(2, "10.0.0.1");
  connections.Add(3, "10.0.0.5");
  EXPECT_EQ(Order(connections), "1 2 3");
}

TEST(UnauthenticatedConnections, AddressesOfOneNetworkOrOfLoopbackAreOnePlace) {
  UnauthenticatedConnections connections;
  connections.Add(1, "10.0.0.1");
  connections.Add(2, "10.0.0.1");
  for (uint64_t i = 0; i < 3; ++i) {
    connections.Add(10 + i, absl::StrCat("2001:db8::", i + 1));
    connections.Add(20 + i, absl::StrCat("127.0.1.", i));
  }
  EXPECT_EQ(Order(connections), "10 20 1 11 21 2 12 22");
}

/// A client with many connections from one address evicts its own, not those of its network neighbours.
TEST(UnauthenticatedConnections, LargestAddressWithinAPlaceIsEvictedFirst) {
  UnauthenticatedConnections connections;
  connections.Add(1, "fe80::1");
  connections.Add(2, "fe80::9");
  connections.Add(3, "fe80::9");
  EXPECT_EQ(connections.First(), 2u);
}

TEST(UnauthenticatedConnections, ActivityMakesAConnectionTheNewest) {
  UnauthenticatedConnections connections;
  connections.Add(1, "10.0.0.1");
  connections.Add(2, "10.0.0.1");
  connections.Renew(1);
  EXPECT_EQ(Order(connections), "2 1");
}

/// Returns the first `count` connections in the order of eviction; they are numbered from 0, the oldest first.
std::vector<uint64_t> FirstOf(const std::vector<std::string>& addresses, size_t count) {
  UnauthenticatedConnections connections;
  for (size_t i = 0; i < addresses.size(); ++i) connections.Add(i, addresses[i]);
  std::vector<uint64_t> first;
  while (first.size() < count) {
    first.push_back(connections.First());
    connections.Remove(first.back());
  }
  return first;
}

using Ids = std::vector<uint64_t>;

TEST(StrangersTest, OldestFromTheBusiestAddressAreDroppedFirst) {
  const std::vector<std::string> places = {"peer", "a", "a", "b", "a", "b"};
  EXPECT_EQ(FirstOf(places, 1), Ids({1}));
  EXPECT_EQ(FirstOf(places, 3), Ids({1, 2, 3})) << "then both have two";
}

TEST(StrangersTest, AllConnectionsAreDropped) { EXPECT_EQ(FirstOf({"a", "b"}, 2), Ids({0, 1})); }

TEST(StrangersTest, OldestOfOneAddressAreDroppedFirst) {
  EXPECT_EQ(FirstOf({"a", "a", "a"}, 2), Ids({0, 1}));
}

TEST(StrangersTest, OldestIsDroppedIfAddressesAreEquallyBusy) {
  EXPECT_EQ(FirstOf({"c", "a", "b"}, 2), Ids({0, 1}));
}

TEST(StrangersTest, AddressesOfAnIPv6NetworkOrOfLoopbackCountAsOne) {
  EXPECT_EQ(FirstOf({"peer", "peer", "fe80::1", "fe80::2", "fe80::3"}, 2), Ids({2, 0}));
  EXPECT_EQ(FirstOf({"peer", "peer", "127.0.0.1", "127.0.0.2", "::1"}, 1), Ids({2}));
}

}  // namespace
}  // namespace mtrun
