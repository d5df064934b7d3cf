// What a server with a certificate tells, and to whom.
#include "web/tls_context.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "base/openssl_owned.h"
#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"
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
  const auto tls = TlsContext::Make(identity.certificate, identity.private_key);
  EXPECT_TRUE(tls.ok()) << tls.status();
  auto server =
      HttpServer::StartService("127.0.0.1", 0, {.routes = {{"GET", kEveryPath, handler}}, .tls = *tls});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

/// What the server answers over TLS of at most `version`, "" where it does not agree.
std::string AskEncrypted(int port, int version = TLS1_3_VERSION) {
  const Owned<SSL_CTX, SSL_CTX_free> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const Owned<BIO, BIO_free_all> bio(BIO_new_ssl_connect(context.get()));
  BIO_set_conn_hostname(bio.get(), absl::StrCat("127.0.0.1:", port).c_str());
  std::string answer;
  if (BIO_do_connect(bio.get()) != 1) return answer;
  BIO_write(bio.get(), kGetBare, sizeof kGetBare - 1);
  std::array<char, 4096> bytes;
  for (int size = 0; (size = BIO_read(bio.get(), bytes.data(), bytes.size())) > 0;)
    answer.append(bytes.data(), static_cast<size_t>(size));
  return answer;
}

void SaySecret(const Request&, const Reply& reply) { reply({.body = std::string(100000, 'x') + "secret"}); }

TEST(TlsContextTest, AnswersAreEncrypted) {
  const auto server = Serve(SaySecret);
  EXPECT_THAT(AskEncrypted(server->port()), AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), EndsWith("xsecret")));
  EXPECT_THAT(support::Ask(server->port(), kGetBare), Not(HasSubstr("secret")));
}

TEST(TlsContextTest, OldVersionsAreRefused) {
  const auto server = Serve(SaySecret);
  EXPECT_EQ(AskEncrypted(server->port(), TLS1_1_VERSION), "");
  EXPECT_THAT(AskEncrypted(server->port(), TLS1_2_VERSION), EndsWith("xsecret"));
}

TEST(TlsContextTest, ALiveBodyIsEncryptedToo) {
  const auto server = Serve([](const Request&, const Reply& reply) {
    const auto body = std::make_shared<LiveBody>();
    reply({.content_type = "text/event-stream", .live = body});
    body->Set(std::string(1 << 20, 'x') + "last");
    body->End();
  });
  EXPECT_THAT(AskEncrypted(server->port()), AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), EndsWith("xlast")));
}

TEST(TlsContextTest, KeysThatAreNoneAreRefused) {
  const TlsIdentity identity = Identity(), other = Identity("another token for this test, long enough too");
  EXPECT_FALSE(TlsContext::Make("", "").ok());
  EXPECT_FALSE(TlsContext::Make(identity.certificate, "nonsense").ok());
  EXPECT_FALSE(TlsContext::Make(identity.certificate, other.private_key).ok());
}

TEST(TlsContextTest, TheFingerprintIsWrittenAsBrowsersShowIt) {
  const std::string certificate = Identity().certificate;
  const auto text = Fingerprint(certificate);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, MatchesRegex("([0-9A-F]{2}:){31}[0-9A-F]{2}"));
  EXPECT_EQ(*Fingerprint(certificate + "what follows"), *text);
  EXPECT_TRUE(absl::IsInvalidArgument(Fingerprint("no certificate").status()));
}

}  // namespace
}  // namespace mtrun::web
