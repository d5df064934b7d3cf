#include "launcher/net/interfaces.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(InterfacesTest, LoopbackIsListed) {
  const std::vector<InterfaceAddress> all = ListInterfaces();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const InterfaceAddress& each) {
    return each.loopback && each.up && (each.address == "127.0.0.1" || each.address == "::1");
  })) << DescribeInterfaces(all);
  // The addresses of an interface are contiguous.
  for (size_t i = 2; i < all.size(); ++i) {
    if (all[i].interface == all[i - 1].interface) continue;
    EXPECT_TRUE(
        std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const InterfaceAddress& each) { return each.interface == all[i].interface; }));
  }
}

TEST(InterfacesTest, NamesAreLookedUp) {
  EXPECT_EQ(*ChooseOwnAddress("localhost", {"node1", 1}), "localhost");
  EXPECT_EQ(*ChooseOwnAddress("127.0.0.0/8", {"node1", 1}), "127.0.0.1");
  EXPECT_THAT(std::string(ChooseOwnAddress("no-such-host", {"node1", 1}).status().message()),
              AllOf(HasSubstr("no-such-host"), HasSubstr("this machine has lo (")));
}

TEST(InterfacesTest, AutoChoosesLoopbackIfTheEndpointIsOnLoopback) {
  EXPECT_EQ(*AutoAddress({"127.0.0.1", 1}), "127.0.0.1");
  EXPECT_EQ(AutoAddress({"no-such-host.invalid", 1}).status().code(), absl::StatusCode::kUnavailable);
  // An endpoint at an address of this machine gives that address.
  const std::string own = FirstForPeers(ListInterfaces(), /*six=*/false);
  if (!own.empty()) {
    EXPECT_EQ(*AutoAddress({own, 1}), own);
  }
}

}  // namespace
}  // namespace mtrun::launcher
