// The data that a server with a certificate reveals, and to which clients.
#include "web/tls_context.h"

#include <openssl/ssl.h>

#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"
#include "tests/support/tcp_client.h"
#include "tests/support/tls_client.h"
#include "tests/support/token.h"
#include "web/http_server.h"

namespace mtrun::web {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr char kGetBare[] = "GET / HTTP/1.1\r\n\r\n";

TlsIdentity Identity(const std::string& token = support::kToken) {
  const auto identity = DeriveIdentity(token);
  EXPECT_TRUE(identity.ok()) << identity.status();
  return *identity;
}

std::unique_ptr<HttpServer> Serve(web::Handler handler) {
  const TlsIdentity identity = Identity();
  const auto tls = MakeTlsContext(identity.certificate, identity.private_key);
  EXPECT_TRUE(tls.ok()) << tls.status();
  auto server = HttpServer::Start("127.0.0.1", 0, {.routes = {{"GET", kEveryPath, handler}}, .tls = *tls});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

void SaySecret(const Request&, const Reply& reply) { reply({.body = std::string(100000, 'x') + "secret"}); }

TEST(TlsContextTest, AnswersAreEncrypted) {
  const auto server = Serve(SaySecret);
  EXPECT_THAT(support::AskEncrypted(server->port(), kGetBare),
              AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), EndsWith("xsecret")));
  EXPECT_THAT(support::Ask(server->port(), kGetBare), Not(HasSubstr("secret")));
}

TEST(TlsContextTest, OldVersionsAreRefused) {
  const auto server = Serve(SaySecret);
  EXPECT_EQ(support::AskEncrypted(server->port(), kGetBare, TLS1_1_VERSION), "");
  EXPECT_THAT(support::AskEncrypted(server->port(), kGetBare, TLS1_2_VERSION), EndsWith("xsecret"));
}

TEST(TlsContextTest, OldCiphersAreRefused) {
  const auto server = Serve(SaySecret);
  for (const char* old : {"SHA1", "SHA256:SHA384", "kRSA", "AESCCM"})
    EXPECT_EQ(support::AskEncrypted(server->port(), kGetBare, TLS1_2_VERSION, old), "") << old;
  EXPECT_THAT(support::AskEncrypted(server->port(), kGetBare, TLS1_2_VERSION, "AESGCM"), EndsWith("xsecret"));
}

TEST(TlsContextTest, LiveBodyIsEncrypted) {
  const auto server = Serve([](const Request&, const Reply& reply) {
    const auto body = std::make_shared<LiveBody>();
    reply({.content_type = "text/event-stream", .live = body});
    body->Set(std::string(1 << 20, 'x') + "last");
    body->End();
  });
  EXPECT_THAT(support::AskEncrypted(server->port(), kGetBare),
              AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), EndsWith("xlast")));
}

TEST(TlsContextTest, InvalidKeysAreRefused) {
  const TlsIdentity identity = Identity(), other = Identity("another token for this test, long enough too");
  const auto refused = [](const char* why) {
    return support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_TRUE(MakeTlsContext(identity.certificate, identity.private_key).ok());
  EXPECT_THAT(MakeTlsContext("", identity.private_key), refused("certificate"));
  EXPECT_THAT(MakeTlsContext(identity.certificate, "nonsense"), refused("private key"));
  EXPECT_THAT(MakeTlsContext(identity.certificate, other.private_key), refused("private key"));
}

TEST(TlsContextTest, FingerprintHasTheFormatOfBrowsers) {
  const std::string certificate = Identity().certificate;
  const auto text = Fingerprint(certificate);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, MatchesRegex("([0-9A-F]{2}:){31}[0-9A-F]{2}"));
  EXPECT_EQ(*Fingerprint(certificate + "what follows"), *text);
  EXPECT_TRUE(absl::IsInvalidArgument(Fingerprint("no certificate").status()));
}

}  // namespace
}  // namespace mtrun::web
