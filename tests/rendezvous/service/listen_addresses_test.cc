#include "rendezvous/service/listen_addresses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

Resolver To(const std::vector<std::string>& addresses) {
  return [addresses](const std::string&) { return addresses; };
}

bool Any(const std::string&) { return true; }

TEST(ListenAddresses, AddressesReachableByOtherMachinesAreUnchanged) {
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "node1", "127.example.org", "::ffff:10.0.0.1"})
    EXPECT_THAT(*ListenAddresses({host, 29400}, To({"127.0.0.1"}), Any), ElementsAre(Endpoint{host, 29400}));
}

TEST(ListenAddresses, CheckedAddressesAreTheBoundOnes) {
  EXPECT_THAT(*ListenAddresses({"127.0.0.2", 5}, To({}), Any), ElementsAre(Endpoint{"127.0.0.2", 5}));
  EXPECT_THAT(*ListenAddresses({"LOCALHOST", 5}, To({"::1", "127.0.0.1"}), Any),
              ElementsAre(Endpoint{"127.0.0.1", 5}, Endpoint{"::1", 5}));
  int lookups = 0;
  const Resolver changing = [&](const std::string&) {
    return std::vector<std::string>{++lookups == 1 ? "127.0.0.1" : "10.0.0.1"};
  };
  EXPECT_THAT(*ListenAddresses({"localhost", 5}, changing, Any), ElementsAre(Endpoint{"127.0.0.1", 5}));
  EXPECT_EQ(lookups, 1);
}

TEST(ListenAddresses, AnyFreePortIsOneAddress) {
  EXPECT_THAT(*ListenAddresses({"localhost", 0}, To({"::1", "127.0.0.1"}), Any),
              ElementsAre(Endpoint{"127.0.0.1", 0}));
}

TEST(ListenAddresses, AddressThatThisMachineLacksIsSkipped) {
  const auto only_v4 = [](const std::string& address) { return address != "::1"; };
  EXPECT_THAT(*ListenAddresses({"localhost", 5}, To({"::1", "127.0.0.1"}), only_v4),
              ElementsAre(Endpoint{"127.0.0.1", 5}));
  const auto none = [](const std::string&) { return false; };
  EXPECT_FALSE(ListenAddresses({"localhost", 5}, To({"::1", "127.0.0.1"}), none).ok());
}

TEST(IsOwn, RecognisesAddressesOfThisMachine) {
  EXPECT_TRUE(IsOwn("127.0.0.1"));
  EXPECT_FALSE(IsOwn("192.0.2.1"));  // RFC 5737: not assigned
  EXPECT_FALSE(IsOwn("node1"));
}

}  // namespace
}  // namespace mtrun::rendezvous
