// Clients that are not admitted, and peers that do not speak the session protocol at all.
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>

#include <grpcpp/grpcpp.h>

#include "base/posix.h"
#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"
#include "tests/rendezvous/session/session_fixture.h"
#include "tests/rendezvous/session/stranger.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, TlsWithOneTokenWorks) {
  StartService(false);
  TestAgent a("node1", SecureOptions());
  a.Offer();
  EXPECT_EQ(a.NextGeneration().number, 1u);
}

TEST_F(SessionTest, WrongTokenIsRefusedWithOneSentence) {
  StartService(false);
  TestAgent a("node1", SecureOptions(support::kOtherToken));
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_TRUE(absl::IsUnauthenticated(*failure));
  EXPECT_THAT(std::string(failure->message()), HasSubstr("has another token"));
}

/// It trusts the service, so only the service's check of its certificate can refuse it.
TEST_F(SessionTest, ClientWithoutTheTokensCertificateIsRefused) {
  StartService(false);
  const auto ours = DeriveIdentity(support::kToken), other = DeriveIdentity(support::kOtherToken);
  ASSERT_TRUE(ours.ok() && other.ok()) << ours.status() << other.status();
  const auto identify = [&](const std::string& certificate, const std::string& private_key) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ours->ca_certificate;
    options.pem_cert_chain = certificate;
    options.pem_private_key = private_key;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(kTlsName);
    const auto stub = wire::Rendezvous::NewStub(
        grpc::CreateCustomChannel(endpoint(), grpc::SslCredentials(options), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    wire::IdentifyReply reply;
    return stub->Identify(&context, {}, &reply).error_code();
  };
  EXPECT_EQ(identify(ours->certificate, ours->private_key), grpc::StatusCode::OK);
  EXPECT_EQ(identify(other->certificate, other->private_key), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(identify("", ""), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SessionTest, PlainTextAgainstTlsIsRefused) {
  StartService(false);
  TestAgent a("node1", Options(1, 1));
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(std::string(failure->message()), HasSubstr("expects TLS"));
}

TEST_F(SessionTest, TlsAgainstPlainTextIsRefused) {
  StartService(true);
  TestAgent a("node1", SecureOptions());
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(std::string(failure->message()), HasSubstr("does not use TLS"));
}

void SendGarbage(int port, const std::string& bytes) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  (void)send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // the service may hang up in between
}

TEST_F(SessionTest, GarbageOnThePortIsHarmless) {
  for (const bool insecure : {true, false}) {
    StartService(insecure);
    std::mt19937_64 random(1);
    for (int i = 0; i < 50; ++i) {
      std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
      for (uint64_t length = random() % 3000; length > 0; --length) bytes += static_cast<char>(random());
      SendGarbage(port_, bytes);
    }
    SessionOptions options = Options(1, 1);
    options.insecure = insecure;
    options.token = support::kToken;
    TestAgent a("node1", options);
    a.Offer();
    EXPECT_EQ(a.NextGeneration().number, 1u);
    a.Kill();
    service_.reset();
  }
}

TEST_F(SessionTest, OtherProgramAtTheServicesPortDoesNotEndTheJob) {
  StartService(false);
  TestAgent a("node1", SecureOptions());
  a.Offer();
  EXPECT_EQ(a.NextGeneration().number, 1u);
  service_.reset();
  {
    Stranger stranger(port_);
    EXPECT_TRUE(stranger.AwaitCalls(3));  // the first ones have been handled by then
  }
  EXPECT_FALSE(a.HasFailed());
  StartService(false);
  EXPECT_TRUE(a.AwaitConnections(2));
  EXPECT_FALSE(a.HasFailed());
}

TEST_F(SessionTest, ServiceWithAnotherTokenDoesNotEndTheJob) {
  StartService(false);
  SessionOptions options = SecureOptions();
  options.connect_report_interval = std::chrono::milliseconds(100);
  TestAgent a("node1", options);
  a.Offer();
  EXPECT_EQ(a.NextGeneration().number, 1u);
  service_.reset();
  StartService(false, support::kOtherToken);
  EXPECT_TRUE(a.AwaitDisconnected("has another token"));
  EXPECT_FALSE(a.HasFailed());
  service_.reset();
  StartService(false);
  EXPECT_TRUE(a.AwaitConnections(2));
}

TEST_F(SessionTest, OtherProgramAtOneEndpointOfAListIsSkipped) {
  StartService(false);
  Stranger stranger;
  SessionOptions options = SecureOptions();
  options.endpoints = {absl::StrCat("127.0.0.1:", stranger.port()), endpoint()};
  TestAgent a("node1", options);
  a.Offer();
  EXPECT_TRUE(a.AwaitConnections(1));
  EXPECT_FALSE(a.HasFailed());
}

TEST(StatusTest, ErrorNamesAnotherProgramAtThePort) {
  const Stranger stranger;
  const absl::Status status =
      AskForStatus(absl::StrCat("127.0.0.1:", stranger.port()), {.insecure = true}).status();
  EXPECT_THAT(status.message(), HasSubstr("another program is listening there"));
}

}  // namespace
}  // namespace mtrun::rendezvous
