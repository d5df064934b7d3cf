#include "launcher/endpoint.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(EndpointTest, ReadsHostAndPort) {
  EXPECT_EQ(*ParseEndpoint("node0:1234"), (Endpoint{"node0", 1234}));
  EXPECT_EQ(*ParseEndpoint("node0"), (Endpoint{"node0", 29400}));
  EXPECT_EQ(*ParseEndpoint("10.0.0.1:0"), (Endpoint{"10.0.0.1", 0}));
  EXPECT_EQ(*ParseEndpoint("[fe80::1]:77"), (Endpoint{"fe80::1", 77}));
  EXPECT_EQ(*ParseEndpoint("[::1]"), (Endpoint{"::1", 29400}));
  EXPECT_EQ(*ParseEndpoint("fe80::1"), (Endpoint{"fe80::1", 29400}));
}

TEST(EndpointTest, TextReadsBack) {
  for (const char* text : {"node0:1", "[::1]:29400", "127.0.0.1:65535"}) {
    EXPECT_EQ(ToText(*ParseEndpoint(text)), text);
  }
}

TEST(EndpointTest, SaysWhatIsWrong) {
  for (const char* text : {"", ":29400", "node0:", "node0:x", "node0:65536", "node0:-1", "[::1", "[::1]77",
                           "a b:1", "http://x:1"}) {
    const auto endpoint = ParseEndpoint(text);
    EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(endpoint.status().message()).find("HOST"), std::string::npos) << text;
  }
}

TEST(EndpointTest, KnowsLoopback) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"node0", "10.0.0.1", "127.example.org", "::2"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace mtrun::launcher
