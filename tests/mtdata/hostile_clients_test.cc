// Malicious clients, over TLS like all others: the server's answers, and the effect on other clients.
#include <deque>

#include "base/data_key.h"
#include "base/file_limit.h"
#include "tests/mtdata/serve_fetch.h"
#include "tests/support/tcp_client.h"
#include "tests/support/tls_client.h"

namespace mtrun::mtdata {
namespace {

using support::AskEncrypted;
using support::TcpClient;
using support::TlsClient;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HostileClients : public ServeFetch {
 protected:
  static std::string Key() {
    return "Authorization: Bearer " + BearerOf(ReadingSecretOf(support::kToken), true) + "\r\n";
  }
  std::string Get(const std::string& target, const std::string& more = "") const {
    return AskEncrypted(port_, "GET " + target + " HTTP/1.1\r\n" + more + Key() + kClose);
  }

  static constexpr char kClose[] = "Connection: close\r\n\r\n";
};

TEST_F(HostileClients, PathsDoNotEscapeTheRoot) {
  const auto server = Serve();
  support::WriteText(folder_.File("secret"), "secret");
  EXPECT_THAT(Get("/set/index.json"), HasSubstr("HTTP/1.1 200"));
  for (const char* target :
       {"/../secret", "/../../etc/passwd", "/set/../../secret", "/%2e%2e/secret", "/%2e%2e/%2e%2e/etc/passwd",
        "/..%5c..%5csecret", "/set//index.json", "/set/./index.json", "/set/index.json%00",
        "/set/index.json%00.safetensors", "/etc/passwd", "//etc/passwd", "/set/train/..%2f..%2findex.json",
        "/%ff%fe/index.json"}) {
    EXPECT_THAT(Get(target), AllOf(HasSubstr("HTTP/1.1 404"), Not(HasSubstr("secret")))) << target;
  }
  EXPECT_THAT(AskEncrypted(port_, absl::StrCat("GET /set/index.json HTTP/1.1\r\n", kClose)),
              HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(AskEncrypted(port_, "DELETE /set/index.json HTTP/1.1\r\n" + Key() + kClose),
              HasSubstr("HTTP/1.1 405"));
  EXPECT_THAT(AskEncrypted(port_, absl::StrCat("GET /healthz HTTP/1.1\r\n", kClose)),
              HasSubstr("HTTP/1.1 200"));
}

TEST_F(HostileClients, AbsurdRangesAreRefusedOrIgnored) {
  const auto server = Serve();
  const std::string shard = "/set/train/shard_00000.safetensors";
  for (const char* range : {"99999999999999999999-", "9223372036854775807-"})
    EXPECT_THAT(Get(shard, absl::StrCat("Range: bytes=", range, "\r\n")), HasSubstr("HTTP/1.1 416")) << range;
  std::string many = "Range: bytes=0-0";
  for (int i = 0; i < 500; ++i) many += absl::StrCat(",", i, "-", i);
  for (const std::string& range :
       {many, std::string("Range: bytes=5-1"), std::string("Range: bytes=99999999999999999999-1"),
        std::string("Range: bytes=--1"), std::string("Range: bytes=-"), std::string("Range: lines=0-1")}) {
    EXPECT_THAT(Get("/set/index.json", range + "\r\n"), HasSubstr("HTTP/1.1 200")) << range;
  }
  EXPECT_THAT(Get(shard, "Range: bytes=-99999999999999999999\r\n"), HasSubstr("\r\nContent-Length: 12"))
      << "all of the last bytes there are";
}

TEST_F(HostileClients, OneThousandSilentConnectionsDoNotBlockOthers) {
  RaiseFileLimit();
  const auto server = Serve();
  std::deque<TcpClient> silent;  // not even TLS messages
  std::deque<TlsClient> idle;    // between two requests
  for (int i = 0; i < 500; ++i) {
    silent.emplace_back(port_);
    ASSERT_TRUE(idle.emplace_back(port_).Send("GET /healthz HTTP/1.1\r\n\r\n")) << i;
  }
  const std::string metrics = Get("/metrics"), name = "\nmtdata_connections ";
  ASSERT_THAT(metrics, HasSubstr(name));
  EXPECT_GE(std::atoi(metrics.c_str() + metrics.find(name) + name.size()), 501);
  ExpectCopy(*Fetch());
}

/// Above the limit, idle connections are closed, and new clients are served.
TEST_F(HostileClients, ConnectionsAboveTheBoundDoNotBlockOthers) {
  const auto server = Serve({"--connections", "100"});
  std::deque<TlsClient> idle;
  const auto fetch = Fetch();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(idle.emplace_back(port_).encrypted()) << i;
  ExpectCopy(*fetch);
  EXPECT_THAT(Get("/set/index.json"), HasSubstr("HTTP/1.1 200"));
}

/// With one thread for all.
TEST_F(HostileClients, SlowReadersDoNotDelayOthers) {
  trainers::testing::WritePackedSet(folder_.File("root"), "large", {.train = 6000, .test = 1},
                                    trainers::testing::VariedPixel);
  const auto server = Serve({"--threads", "1"});
  std::deque<TlsClient> slow;
  for (int i = 0; i < 20; ++i) {
    const TlsClient& client = slow.emplace_back(port_);
    ASSERT_TRUE(client.Send("GET /large/train/shard_00000.safetensors HTTP/1.1\r\n" + Key() + kClose)) << i;
  }
  ExpectCopy(*Fetch());
  EXPECT_THAT(Get("/set/index.json"), HasSubstr("HTTP/1.1 200"));
  EXPECT_EQ(CountOf(*server, "/large/"), 0u) << "more than the kernel takes for them: " << server->Text();
}

}  // namespace
}  // namespace mtrun::mtdata
