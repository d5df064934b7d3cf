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

TEST(LocalAddressTest, AnAddressOrANameIsItself) {
  EXPECT_EQ(Chosen("10.0.0.9"), "10.0.0.9");  // behind address translation: not this machine's
  EXPECT_EQ(Chosen("fd00::2"), "fd00::2");
  EXPECT_EQ(Chosen("node3", false, true), "node3");
  EXPECT_EQ(Chosen("train-0.train"), "train-0.train");  // a cluster's DNS may know it in a moment
  EXPECT_EQ(Chosen("auto"), "auto");
}

TEST(LocalAddressTest, AnInterfaceIsItsAddressForPeers) {
  EXPECT_EQ(Chosen("eth0"), "10.0.0.2");
  EXPECT_EQ(Chosen("eth0", /*six=*/true), "fd00::2");
  EXPECT_EQ(Chosen("ib0", /*six=*/true), "192.168.7.2");
  EXPECT_EQ(Chosen("lo"), "127.0.0.1");
  EXPECT_EQ(*ChooseAddress("eth0", {{"eth0", "fe80::1"}, {"eth0", "fd00::2"}}, false, false), "fd00::2");
}

TEST(LocalAddressTest, ANetworkIsTheFirstAddressInIt) {
  EXPECT_EQ(Chosen("192.168.0.0/16"), "192.168.7.2");
  EXPECT_EQ(Chosen("10.0.0.2/32"), "10.0.0.2");
  EXPECT_EQ(Chosen("fd00::/8"), "fd00::2");
  EXPECT_THAT(Chosen("10.0.0.0/31"), HasSubstr("holds no address at which"));
  EXPECT_EQ(Chosen("0.0.0.0/0"), "10.0.0.2");
  EXPECT_EQ(Chosen("127.0.0.0/8"), "127.0.0.1");
  EXPECT_THAT(Chosen("fe80::/10"), HasSubstr("holds no address at which"));
}

TEST(LocalAddressTest, WhatIsWrongNamesTheInterfaces) {
  constexpr char kAll[] =
      "this machine has lo (127.0.0.1, ::1), eth0 (fe80::1, 10.0.0.2, fd00::2), ib0 (192.168.7.2), eth1 "
      "(down), "
      "docker0 (no address), usb0 (169.254.1.1)";
  EXPECT_EQ(
      Chosen("eht0"),
      absl::StrCat(
          "--local_addr: \"eht0\" is no address, no interface, no network like 10.0.0.0/8, not auto, and "
          "no name that resolves; ",
          kAll));
  EXPECT_THAT(Chosen("eth1"), AllOf(HasSubstr("\"eth1\" is down"), HasSubstr(kAll)));
  EXPECT_THAT(Chosen("docker0"), HasSubstr("has no address that another machine reaches"));
  EXPECT_THAT(Chosen("usb0"), HasSubstr("has no address that another machine reaches"));
  for (const char* text :
       {"10.0.0.0/33", "10.0.0.0/", "/8", "eth0/24", "fd00::/129", "10.0.0.0/-1", "10.0.0/8"})
    EXPECT_THAT(Chosen(text), AllOf(HasSubstr(text), HasSubstr("is no network like"), HasSubstr(kAll)))
        << text;
  EXPECT_THAT(std::string(ChooseAddress("x", {}, false, false).status().message()),
              HasSubstr("this machine has no network interface"));
}

TEST(LocalAddressTest, OnlyWhatMayBeANameIsLookedUp) {
  EXPECT_TRUE(MayBeName("node3", kNode));
  for (const char* text : {"", "auto", "10.0.0.0/8", "10.0.0.1", "fd00::1", "eth0"})
    EXPECT_FALSE(MayBeName(text, kNode)) << text;
}

TEST(LocalAddressTest, AnAddressHasAnInterfaceUnlessItIsLoopback) {
  EXPECT_EQ(InterfaceOf("10.0.0.2", kNode), "eth0");
  EXPECT_EQ(InterfaceOf("fd00:0::2", kNode), "eth0");
  EXPECT_EQ(InterfaceOf("192.168.7.2", kNode), "ib0");
  for (const char* text : {"127.0.0.1", "::1", "10.0.0.9", "node3", ""})
    EXPECT_EQ(InterfaceOf(text, kNode), "") << text;
}

TEST(LocalAddressTest, LoopbackAndLinkLocalAreNotForPeers) {
  EXPECT_EQ(FirstForPeers(kNode, false), "10.0.0.2");
  EXPECT_EQ(FirstForPeers(kNode, true), "fd00::2");
  EXPECT_EQ(FirstForPeers({kNode.begin(), kNode.begin() + 3}, false), "");
}

}  // namespace
}  // namespace mtrun::launcher
