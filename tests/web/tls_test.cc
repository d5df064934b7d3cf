// A server with keys: what it tells only those who speak TLS.
#include "web/tls.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <array>

#include "absl/strings/str_cat.h"
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

TlsKeys Keys() {
  const auto identity = DeriveIdentity(support::kToken);
  EXPECT_TRUE(identity.ok()) << identity.status();
  return {identity->certificate, identity->private_key};
}

/// What the server answers over TLS of at most `version`, "" where it does not agree.
std::string AskEncrypted(int port, const std::string& request, int version = TLS1_3_VERSION) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context.get()), &BIO_free_all);
  BIO_set_conn_hostname(bio.get(), absl::StrCat("127.0.0.1:", port).c_str());
  std::string answer;
  if (BIO_do_connect(bio.get()) != 1) return answer;
  BIO_write(bio.get(), request.data(), static_cast<int>(request.size()));
  std::array<char, 4096> bytes;
  for (int size = 0; (size = BIO_read(bio.get(), bytes.data(), bytes.size())) > 0;)
    answer.append(bytes.data(), static_cast<size_t>(size));
  return answer;
}

std::unique_ptr<HttpServer> Serve() {
  const auto say = [](const Request&, const Reply& reply) {
    reply({.body = std::string(100000, 'x') + "secret"});
  };
  auto server = HttpServer::Start("127.0.0.1", 0, {{"GET", kEveryPath, say}}, {}, Keys());
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(TlsTest, AnswersAreEncrypted) {
  const auto server = Serve();
  EXPECT_THAT(AskEncrypted(server->port(), "GET / HTTP/1.1\r\n\r\n"),
              AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), EndsWith("xsecret")));
  EXPECT_THAT(support::Ask(server->port(), "GET / HTTP/1.1\r\n\r\n"), Not(HasSubstr("secret")));
}

TEST(TlsTest, OldVersionsAreRefused) {
  const auto server = Serve();
  EXPECT_EQ(AskEncrypted(server->port(), "GET / HTTP/1.1\r\n\r\n", TLS1_1_VERSION), "");
  EXPECT_THAT(AskEncrypted(server->port(), "GET / HTTP/1.1\r\n\r\n", TLS1_2_VERSION), EndsWith("xsecret"));
}

TEST(TlsTest, KeysThatAreNoneAreRefused) {
  TlsKeys keys = Keys();
  keys.private_key = "no key";
  EXPECT_TRUE(absl::IsInvalidArgument(HttpServer::Start("127.0.0.1", 0, {}, {}, keys).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Fingerprint("no certificate").status()));
}

TEST(TlsTest, TheFingerprintIsWrittenAsBrowsersShowIt) {
  const std::string certificate = Keys().certificate;
  const auto text = Fingerprint(certificate);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, MatchesRegex("([0-9A-F]{2}:){31}[0-9A-F]{2}"));
  EXPECT_EQ(*Fingerprint(certificate + "what follows"), *text);
}

}  // namespace
}  // namespace mtrun::web
