#include "trainers/collectives/host.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

TEST(HostTest, PeerInfoRoundTrips) {
  const PeerInfo info = {.pid = 77,
                         .host = "node2",
                         .host_id = "boot/4026531840/node2",
                         .unix_name = "mtrun-0123",
                         .port = 4000,
                         .addresses = {"10.0.0.2", "fd00::2"},
                         .encrypts = true};
  const auto decoded = DecodePeerInfo(Encode(info));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Encode(*decoded), Encode(info));
  EXPECT_EQ(decoded->addresses, info.addresses);
  EXPECT_TRUE(decoded->encrypts);
  EXPECT_EQ(Describe(3, *decoded), "rank 3 (pid 77 on node2)");
}

TEST(HostTest, MalformedPeerInfoIsRefused) {
  for (const char* text : {"", "77\nnode2", "x\nnode2\nid\nname\n4000\n", "77\nnode2\nid\nname\nport\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodePeerInfo(text).status())) << text;
  }
}

TEST(HostTest, HostIdIsStableAndCanBeGiven) {
  unsetenv("MTRUN_HOST_ID");
  const std::string here = LocalHostId();
  EXPECT_EQ(here, LocalHostId());
  setenv("MTRUN_HOST_ID", "another", 1);
  EXPECT_EQ(LocalHostId(), "another");
  unsetenv("MTRUN_HOST_ID");
}

TEST(HostTest, LoopbackAddressesComeLast) {
  const std::vector<std::string> addresses = LocalAddresses();
  ASSERT_FALSE(addresses.empty());
  bool loopback = false;
  for (const std::string& address : addresses) {
    const bool is_loopback = address == "127.0.0.1" || address == "::1";
    if (loopback) {
      EXPECT_TRUE(address.starts_with("127.") || address == "::1") << address;
    }
    loopback = loopback || is_loopback;
  }
}

}  // namespace
}  // namespace mtrun::collectives
