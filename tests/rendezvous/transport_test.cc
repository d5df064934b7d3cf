#include "rendezvous/transport.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST(ParseEndpoint, TakesNamesAddressesAndBrackets) {
  EXPECT_EQ(ParseEndpoint("node1:29400")->host, "node1");
  EXPECT_EQ(ParseEndpoint("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseEndpoint("[fe80::1]:80")->Text(), "[fe80::1]:80");
  EXPECT_EQ(ParseEndpoint("10.0.0.1:65535")->port, 65535);
}

TEST(ParseEndpoint, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return std::string(ParseEndpoint(text).status().message());
  };
  EXPECT_THAT(error("node1"), HasSubstr("there is no port"));
  EXPECT_THAT(error("node1:http"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(error("node1:65536"), HasSubstr("number from 0 to 65535"));
  EXPECT_THAT(error(":29400"), HasSubstr("there is no host"));
  EXPECT_THAT(error("::1:29400"), HasSubstr("brackets"));
  EXPECT_THAT(error("user@node1:29400"), HasSubstr("no host name has"));
}

TEST(Endpoint, KnowsLoopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"})
    EXPECT_TRUE((Endpoint{host, 1}.IsLoopback())) << host;
  for (const char* host : {"node1", "10.0.0.1", "::"}) EXPECT_FALSE((Endpoint{host, 1}.IsLoopback())) << host;
}

TEST(JudgeCredentials, OnlyWhatCanNeverWorkIsFinal) {
  const grpc::Status refused(grpc::StatusCode::UNAVAILABLE,
                             "Ssl handshake failed: SSL_ERROR_SSL: certificate verify failed");
  const grpc::Status plain(grpc::StatusCode::UNAVAILABLE,
                           "Ssl handshake failed: SSL_ERROR_SSL: wrong version number");
  const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "Connection refused");
  EXPECT_TRUE(absl::IsUnauthenticated(JudgeCredentials("e:1", refused, false)));
  EXPECT_TRUE(absl::IsFailedPrecondition(JudgeCredentials("e:1", plain, false)));
  EXPECT_TRUE(JudgeCredentials("e:1", away, false).ok());
}

TEST(WhyUnreachable, NamesAStrangerAtThePort) {
  const auto why = [](const char* text) {
    return WhyUnreachable(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  };
  EXPECT_THAT(why("ipv4:127.0.0.1:29477: Failed parsing HTTP/2"), HasSubstr("another program listens"));
  EXPECT_THAT(why("Trying to connect an http1.x server"), HasSubstr("another program listens"));
  EXPECT_EQ(why("Connection refused"), "Connection refused");
}

}  // namespace
}  // namespace mtrun::rendezvous
