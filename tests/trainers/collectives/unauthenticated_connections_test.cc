#include "trainers/collectives/unauthenticated_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StrangersTest, OldestFromTheBusiestAddressAreDroppedFirst) {
  const std::vector<std::string> places = {"peer", "a", "a", "b", "a", "b"};
  EXPECT_THAT(ChooseDropped(places, 0), IsEmpty());
  EXPECT_THAT(ChooseDropped(places, 1), ElementsAre(1));
  EXPECT_THAT(ChooseDropped(places, 3), ElementsAre(1, 2, 3)) << "then both have two";
}

TEST(StrangersTest, DropsAtMostAllConnections) {
  EXPECT_THAT(ChooseDropped({"a", "b"}, 9), ElementsAre(0, 1));
  EXPECT_THAT(ChooseDropped({}, 1), IsEmpty());
}

TEST(StrangersTest, OldestOfOneAddressAreDroppedFirst) {
  EXPECT_THAT(ChooseDropped({"a", "a", "a"}, 2), ElementsAre(0, 1));
}

TEST(StrangersTest, OldestIsDroppedIfAddressesAreEquallyBusy) {
  EXPECT_THAT(ChooseDropped({"c", "a", "b"}, 2), ElementsAre(0, 1));
}

TEST(StrangersTest, AddressesOfAnIPv6NetworkOrOfLoopbackCountAsOne) {
  EXPECT_THAT(ChooseDropped({"peer", "peer", "fe80::1", "fe80::2", "fe80::3"}, 2), ElementsAre(2, 0));
  EXPECT_THAT(ChooseDropped({"peer", "peer", "127.0.0.1", "127.0.0.2", "::1"}, 1), ElementsAre(2));
}

}  // namespace
}  // namespace mtrun::collectives
