#include "base/endpoint.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"

namespace mtrun {
namespace {

using ::testing::HasSubstr;

auto IsRefused(const std::string& words) {
  return support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
}

TEST(EndpointTest, ParsesHostAndPort) {
  EXPECT_EQ(*ParseEndpoint("node0:1234"), (Endpoint{"node0", 1234}));
  EXPECT_EQ(*ParseEndpoint("node0"), (Endpoint{"node0", 29400}));
  EXPECT_EQ(*ParseEndpoint("10.0.0.1:0"), (Endpoint{"10.0.0.1", 0}));
  EXPECT_EQ(*ParseEndpoint("[fe80::1]:77"), (Endpoint{"fe80::1", 77}));
  EXPECT_EQ(*ParseEndpoint("[::1]"), (Endpoint{"::1", 29400}));
  EXPECT_EQ(*ParseEndpoint("fe80::1"), (Endpoint{"fe80::1", 29400}));
}

TEST(EndpointTest, TextReadsBack) {
  for (const char* text : {"node0:1", "[::1]:29400", "127.0.0.1:65535", "[fe80::1%eth0]:80"}) {
    EXPECT_EQ(ToText(*ParseEndpoint(text)), text);
  }
}

TEST(EndpointTest, ReportsErrors) {
  for (const char* text : {"", ":29400", "node0:", "node0:x", "node0:65536", "node0:-1", "[::1", "[::1]77",
                           "a b:1", "http://x:1", "user@node1:29400", "[node0]:1", "[127.0.0.1]:1"}) {
    const auto endpoint = ParseEndpoint(text);
    EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("HOST")) << text;
  }
  const auto error = [](const char* text) { return std::string(ParseEndpoint(text).status().message()); };
  EXPECT_THAT(error("node1:http"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(error("::1:29400"), HasSubstr("brackets"));
}

TEST(EndpointTest, PortAloneIsOfThisMachine) {
  for (const char* text : {"8080", ":8080"})
    EXPECT_EQ(*ParseLocalEndpoint(text), (Endpoint{"127.0.0.1", 8080}));
  EXPECT_EQ(*ParseLocalEndpoint("node0", 8080), (Endpoint{"node0", 8080}));
  EXPECT_EQ(*ParseLocalEndpoint("node0:1", 8080), (Endpoint{"node0", 1}));
  EXPECT_EQ(*ParseEndpoint("[::1]", 8080), (Endpoint{"::1", 8080}));
  for (const char* text : {"65536", ":", "", ":x"})
    EXPECT_THAT(ParseLocalEndpoint(text), IsRefused("is not HOST or HOST:PORT")) << text;
}

TEST(EndpointTest, ListIsNotAnEndpoint) {
  for (const char* list : {"127.0.0.1:1,node2:1", "127.0.0.1,node2", "127.0.0.1,node2:1"})
    EXPECT_THAT(ParseEndpoint(list), IsRefused("is not HOST or HOST:PORT")) << list;
}

/// Resolves every name to `addresses`.
Resolver To(const std::vector<std::string>& addresses) {
  return [addresses](const std::string&) { return addresses; };
}

TEST(IsEveryAddressTest, IsTheUnspecifiedAddress) {
  for (const char* every : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"})
    EXPECT_TRUE(IsEveryAddress(every));
  for (const char* other : {"127.0.0.1", "::1", "0.0.0.1", "localhost", "node0", ""})
    EXPECT_FALSE(IsEveryAddress(other)) << other;
}

TEST(IsLoopbackTest, JudgesAddressesByTheirNumber) {
  const Resolver never = [](const std::string& host) -> std::vector<std::string> {
    ADD_FAILURE() << host << " was looked up";
    return {};
  };
  for (const char* host : {"127.0.0.1", "127.0.1.1", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1",
                           "::ffff:127.0.0.1", "::FFFF:7f01:0203"})
    EXPECT_TRUE(IsLoopback(host, never)) << host;
  for (const char* host : {"10.0.0.1", "128.0.0.1", "126.255.255.255", "0.0.0.0", "::", "::2", "fe80::1%lo",
                           "::127.0.0.1", "::ffff:10.0.0.1"})
    EXPECT_FALSE(IsLoopback(host, never)) << host;
}

TEST(IsLoopbackTest, JudgesNamesOfLoopbackByAllTheyResolveTo) {
  for (const char* host : {"localhost", "LOCALHOST", "LocalHost.", "node1.localhost"}) {
    EXPECT_TRUE(IsLoopback(host, To({"127.0.0.1"}))) << host;
    EXPECT_TRUE(IsLoopback(host, To({"::1", "127.0.0.1"}))) << host;
    EXPECT_FALSE(IsLoopback(host, To({"::1", "10.0.0.1"}))) << host;
    EXPECT_FALSE(IsLoopback(host, To({"0.0.0.0"}))) << host;
    EXPECT_FALSE(IsLoopback(host, To({}))) << host << " does not resolve";
  }
}

TEST(IsLoopbackTest, NoOtherNameIsLoopbackWhateverItResolvesTo) {
  for (const char* host : {"node0", "127.example.org", "localhost.example.org", "notlocalhost", "127.1",
                           "0x7f000001", "2130706433", ""})
    EXPECT_FALSE(IsLoopback(host, To({"127.0.1.1"}))) << host;
}

TEST(IsLoopbackTest, NamesAreTakenLiterallyWithoutAResolver) {
  for (const char* host : {"localhost", "LOCALHOST", "Localhost.", "node1.localhost", "127.8.0.1", "::1"})
    EXPECT_TRUE(IsLoopback(host, NamesAsTheySay)) << host;
  for (const char* host : {"127.example.org", "localhost.example.org", "node0", "10.0.0.1", "::", ""})
    EXPECT_FALSE(IsLoopback(host, NamesAsTheySay)) << host;
}

TEST(IsLoopbackTest, ListIsLoopbackOnlyIfAllEndpointsAre) {
  const Resolver resolve = To({"127.0.0.1"});
  EXPECT_TRUE(AreLoopback({{"127.0.0.1", 1}, {"localhost", 2}}, resolve));
  EXPECT_FALSE(AreLoopback({{"127.0.0.1", 1}, {"node2", 1}}, resolve));
  EXPECT_FALSE(AreLoopback({{"node2", 1}, {"127.0.0.1", 1}}, resolve));
  EXPECT_FALSE(AreLoopback({}, resolve));
}

TEST(ResolveHostTest, ReturnsEachNumericAddressOnce) {
  EXPECT_EQ(ResolveHost("127.0.0.1"), std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(ResolveHost("::1"), std::vector<std::string>{"::1"});
  EXPECT_TRUE(ResolveHost("no such name").empty());
}

}  // namespace
}  // namespace mtrun
