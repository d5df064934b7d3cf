#include "launcher/net/own_name.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

std::vector<std::string> Unresolved(const std::string&) { return {}; }

TEST(EndpointFromHereTest, OwnNameThatDoesNotResolveIsThisMachine) {
  EXPECT_EQ(EndpointFromHere("node0:29400", "node0", Unresolved), "localhost:29400");
  EXPECT_EQ(EndpointFromHere("Node0.:77", "node0", Unresolved), "localhost:77");
  EXPECT_EQ(EndpointFromHere("node0.cluster:77", "node0.cluster", Unresolved), "localhost:77");
}

TEST(EndpointFromHereTest, OtherNamesAndAddressesStay) {
  const auto resolved = [](const std::string&) { return std::vector<std::string>{"10.0.0.1"}; };
  EXPECT_EQ(EndpointFromHere("node0:29400", "node0", resolved), "node0:29400");
  for (const char* other : {"node1:29400", "node0.cluster:29400", "10.0.0.1:29400", "[fd00::1]:29400",
                            "localhost:29400", "node0:29400,node1:29400"})
    EXPECT_EQ(EndpointFromHere(other, "node0", Unresolved), other);
}

TEST(HidesBehindNameTest, FirstUsableAddressOfTheNameDecides) {
  const std::vector<InterfaceAddress> interfaces = {
      {"lo", "127.0.0.1", true, true}, {"eth0", "10.0.0.1"}, {"eth0", "fd00::1"}};
  EXPECT_TRUE(HidesBehindName({"127.0.1.1"}, interfaces));
  EXPECT_TRUE(HidesBehindName({"127.0.1.1", "10.0.0.1"}, interfaces));
  EXPECT_TRUE(HidesBehindName({}, interfaces)) << "Gloo then takes loopback";
  EXPECT_TRUE(HidesBehindName({"192.0.2.7"}, interfaces)) << "an address that this machine no longer has";
  EXPECT_FALSE(HidesBehindName({"10.0.0.1"}, interfaces));
  EXPECT_FALSE(HidesBehindName({"fd00::1", "127.0.0.1"}, interfaces));
  EXPECT_FALSE(HidesBehindName({"::1", "10.0.0.1"}, interfaces)) << "no IPv6 on loopback: it cannot be bound";
}

}  // namespace
}  // namespace mtrun::launcher
