#include "base/crowd.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(PlaceOfAddress, IsWhatOneMachineCannotMultiply) {
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

/// Ids in the order in which they would go.
std::string Order(Crowd crowd) {
  std::string order;
  while (crowd.size() > 0) {
    const uint64_t first = crowd.First();
    absl::StrAppend(&order, order.empty() ? "" : " ", first);
    crowd.Remove(first);
  }
  return order;
}

TEST(Crowd, TheOldestOfTheAddressThatHasMostGoesFirst) {
  Crowd crowd;
  crowd.Add(1, "10.0.0.1");
  crowd.Add(2, "10.0.0.9");
  crowd.Add(3, "10.0.0.9");
  crowd.Add(4, "10.0.0.9");
  EXPECT_EQ(Order(crowd), "2 3 1 4");
  crowd.Remove(9);
  crowd.Remove(4);
  EXPECT_EQ(Order(crowd), "2 1 3");
}

TEST(Crowd, AmongEqualsItIsTheOldestWhateverItsAddress) {
  Crowd crowd;
  crowd.Add(1, "10.0.0.9");
  crowd.Add(2, "10.0.0.1");
  crowd.Add(3, "10.0.0.5");
  EXPECT_EQ(Order(crowd), "1 2 3");
}

TEST(Crowd, ManyAddressesOfOneNetworkOrOfLoopbackAreOnePlace) {
  Crowd crowd;
  crowd.Add(1, "10.0.0.1");
  crowd.Add(2, "10.0.0.1");
  for (uint64_t i = 0; i < 3; ++i) {
    crowd.Add(10 + i, absl::StrCat("2001:db8::", i + 1));
    crowd.Add(20 + i, absl::StrCat("127.0.1.", i));
  }
  EXPECT_EQ(Order(crowd), "10 20 1 11 21 2 12 22");
}

/// Who has one address alone pushes himself out, not his neighbours in the network.
TEST(Crowd, WithinAPlaceTheAddressThatHasMostGoesFirst) {
  Crowd crowd;
  crowd.Add(1, "fe80::1");
  crowd.Add(2, "fe80::9");
  crowd.Add(3, "fe80::9");
  EXPECT_EQ(crowd.First(), 2u);
}

TEST(Crowd, WhoHasSpokenIsTheNewest) {
  Crowd crowd;
  crowd.Add(1, "10.0.0.1");
  crowd.Add(2, "10.0.0.1");
  crowd.Renew(1);
  EXPECT_EQ(Order(crowd), "2 1");
}

}  // namespace
}  // namespace mtrun
