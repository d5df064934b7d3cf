#include "base/link_zone.h"

#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(LinkZoneTest, OnlyLinkLocalAddressesHaveOne) {
  EXPECT_EQ(WithZone("fe80::1", "eth0"), "fe80::1%eth0");
  EXPECT_EQ(WithZone("febf::1", "eth0"), "febf::1%eth0");
  EXPECT_EQ(WithZone("fe80::1%lan0", "eth0"), "fe80::1%lan0");
  EXPECT_EQ(WithZone("fe80::1", ""), "fe80::1");
  EXPECT_EQ(WithoutZone("fe80::1%eth0"), "fe80::1");
  EXPECT_EQ(ZoneOf("fe80::1%eth0"), "eth0");
  for (const char* other : {"fd00::1", "fec0::1", "::1", "10.0.0.1", "169.254.0.1", "node0", "a%b", ""}) {
    EXPECT_EQ(WithZone(other, "eth0"), other);
    EXPECT_EQ(WithoutZone(other), other);
    EXPECT_EQ(ZoneOf(other), "");
  }
}

TEST(LinkZoneTest, AddressOfAUserNeedsAZone) {
  EXPECT_TRUE(CheckZone({"fe80::1%eth0", 1}).ok());
  EXPECT_TRUE(CheckZone({"fd00::1", 1}).ok());
  EXPECT_TRUE(CheckZone({"node0", 1}).ok());
  const absl::Status status = CheckZone({"fe80::1", 77});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(std::string(status.message()).find("[fe80::1%eth0]:77"), std::string::npos) << status;
}

}  // namespace
}  // namespace mtrun
