#include "launcher/net/local_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Interfaces = std::vector<InterfaceAddress>;

const Interfaces kNode = {{"lo", "127.0.0.1", true, true},
                          {"lo", "::1", true, true},
                          {"eth0", "fe80::1"},
                          {"eth0", "10.0.0.2"},
                          {"eth0", "fd00::2"},
                          {"ib0", "192.168.7.2"},
                          {"eth1", "", false},
                          {"docker0", ""},
                          {"usb0", "169.254.1.1"}};

std::string Chosen(const std::string& text, bool six = false, bool is_known = false) {
  const auto address = ChooseAddress(text, kNode, six, is_known);
  return address.ok() ? *address : std::string(address.status().message());
}

TEST(LocalAddressTest, AddressOrNameIsUnchanged) {
  EXPECT_EQ(Chosen("10.0.0.9"), "10.0.0.9");  // behind address translation: not an address of this machine
  EXPECT_EQ(Chosen("fd00::2"), "fd00::2");
  EXPECT_EQ(Chosen("node3", false, true), "node3");
  EXPECT_EQ(Chosen("train-0.train"), "train-0.train");  // a cluster's DNS may know it later
  EXPECT_EQ(Chosen("auto"), "auto");
}

TEST(LocalAddressTest, InterfaceBecomesItsAddressForPeers) {
  EXPECT_EQ(Chosen("eth0"), "10.0.0.2");
  EXPECT_EQ(Chosen("eth0", /*six=*/true), "fd00::2");
  EXPECT_EQ(Chosen("ib0", /*six=*/true), "192.168.7.2");
  EXPECT_EQ(Chosen("lo"), "127.0.0.1");
  EXPECT_EQ(*ChooseAddress("eth0", {{"eth0", "fe80::1"}, {"eth0", "fd00::2"}}, false, false), "fd00::2");
}

TEST(LocalAddressTest, NetworkBecomesTheFirstAddressInIt) {
  EXPECT_EQ(Chosen("192.168.0.0/16"), "192.168.7.2");
  EXPECT_EQ(Chosen("10.0.0.2/32"), "10.0.0.2");
  EXPECT_EQ(Chosen("fd00::/8"), "fd00::2");
  EXPECT_THAT(Chosen("10.0.0.0/31"), HasSubstr("contains no address at which"));
  EXPECT_EQ(Chosen("0.0.0.0/0"), "10.0.0.2");
  EXPECT_EQ(Chosen("127.0.0.0/8"), "127.0.0.1");
  EXPECT_THAT(Chosen("fe80::/10"), HasSubstr("contains no address at which"));
}

TEST(LocalAddressTest, ErrorsListTheInterfaces) {
  constexpr char kAll[] =
      "this machine has lo (127.0.0.1, ::1), eth0 (fe80::1, 10.0.0.2, fd00::2), ib0 (192.168.7.2), eth1 "
      "(down), "
      "docker0 (no address), usb0 (169.254.1.1)";
  EXPECT_EQ(
      Chosen("eht0"),
      absl::StrCat(
          "--local_addr: \"eht0\" is not an address, an interface, a network like 10.0.0.0/8, auto or a "
          "name that resolves; ",
          kAll));
  EXPECT_THAT(Chosen("eth1"), AllOf(HasSubstr("\"eth1\" is down"), HasSubstr(kAll)));
  EXPECT_THAT(Chosen("docker0"), HasSubstr("has no address that another machine can reach"));
  EXPECT_THAT(Chosen("usb0"), HasSubstr("has no address that another machine can reach"));
  for (const char* text :
       {"10.0.0.0/33", "10.0.0.0/", "/8", "eth0/24", "fd00::/129", "10.0.0.0/-1", "10.0.0/8"})
    EXPECT_THAT(Chosen(text), AllOf(HasSubstr(text), HasSubstr("is not a network like"), HasSubstr(kAll)))
        << text;
  EXPECT_THAT(std::string(ChooseAddress("x", {}, false, false).status().message()),
              HasSubstr("this machine has no network interface"));
}

TEST(LocalAddressTest, OnlyPossibleNamesAreLookedUp) {
  EXPECT_TRUE(MayBeName("node3", kNode));
  for (const char* text : {"", "auto", "10.0.0.0/8", "10.0.0.1", "fd00::1", "eth0"})
    EXPECT_FALSE(MayBeName(text, kNode)) << text;
}

TEST(LocalAddressTest, AddressHasAnInterfaceUnlessItIsLoopback) {
  EXPECT_EQ(InterfaceOf("10.0.0.2", kNode), "eth0");
  EXPECT_EQ(InterfaceOf("fd00:0::2", kNode), "eth0");
  EXPECT_EQ(InterfaceOf("192.168.7.2", kNode), "ib0");
  for (const char* text : {"127.0.0.1", "::1", "10.0.0.9", "node3", ""})
    EXPECT_EQ(InterfaceOf(text, kNode), "") << text;
}

TEST(LocalAddressTest, LoopbackAndLinkLocalAreNotOfferedToPeers) {
  EXPECT_EQ(FirstForPeers(kNode, false), "10.0.0.2");
  EXPECT_EQ(FirstForPeers(kNode, true), "fd00::2");
  EXPECT_EQ(FirstForPeers({kNode.begin(), kNode.begin() + 3}, false), "");
}

TEST(LocalAddressTest, ZoneIsThatOfTheFirstInterfaceOnALink) {
  EXPECT_EQ(FirstZone({{"lo", "fe80::9", true, true},
                       {"eth0", "10.0.0.1"},
                       {"eth1", "fe80::1", false},
                       {"eth2", "fe80::2"}}),
            "eth2");
  EXPECT_EQ(FirstZone({{"eth0", "10.0.0.1"}}), "");
}

}  // namespace
}  // namespace mtrun::launcher
