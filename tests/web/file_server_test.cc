// Files, kept connections and TLS, over real sockets.
#include <fcntl.h>

#include <deque>
#include <mutex>
#include <thread>

#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/tcp_client.h"
#include "tests/support/tls_client.h"
#include "web/file_answer.h"
#include "web/http_server.h"

namespace mtrun::web {
namespace {

using support::Ask;
using support::TcpClient;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kSize = (16 << 20) + 17;  // more than the kernel buffers for a client that does not read

std::string Contents() {
  std::string bytes(kSize, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + (i * i / 7) % 26);
  return bytes;
}

class FileServer : public testing::Test {
 protected:
  void Start(const Limits& limits, int threads = 1, std::shared_ptr<TlsContext> tls = nullptr) {
    support::WriteText(folder_.File("file"), contents_);
    Service service;
    service.limits = limits;
    service.threads = threads;
    service.tls = std::move(tls);
    service.routes = {{"GET", "/file", [this](const Request& request, const Reply& reply) {
                         Response response = AnswerFile(request, {.size = kSize}, "application/octet-stream");
                         if (response.file)
                           response.file->fd = std::make_shared<const UniqueFd>(
                               open(folder_.File("file").c_str(), O_RDONLY | O_CLOEXEC));
                         reply(response);
                       }}};
    service.exchanged = [this](const Exchange& exchange) {
      const std::lock_guard lock(mu_);
      exchanges_.push_back(exchange);
    };
    auto server = HttpServer::Start("", 0, service);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->port(); }
  static std::shared_ptr<TlsContext> Tls() {
    const auto identity = DeriveIdentity("a token for this test alone, long enough");
    EXPECT_TRUE(identity.ok()) << identity.status();
    auto tls = MakeTlsContext(identity->certificate, identity->private_key);
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }
  void ExpectCutOff() {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::lock_guard lock(mu_);
      if (exchanges_.empty()) continue;
      EXPECT_FALSE(exchanges_[0].complete);
      EXPECT_LT(exchanges_[0].bytes, kSize);
      break;
    }
  }

  const std::string contents_ = Contents();
  support::TemporaryFolder folder_;
  std::mutex mu_;
  std::vector<Exchange> exchanges_;
  std::unique_ptr<HttpServer> server_;
};

constexpr Limits kKeeps = {.request_patience = std::chrono::minutes(1),
                           .idle_patience = std::chrono::minutes(1)};

TEST_F(FileServer, FileIsServedWholeAndInParts) {
  Start({});
  EXPECT_THAT(Ask(port(), "GET /file HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\n" + contents_));
  const std::string part = Ask(port(), "GET /file HTTP/1.1\r\nRange: bytes=1000000-1000009\r\n\r\n");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206 Partial Content\r\n"));
  EXPECT_THAT(part, EndsWith("\r\n\r\n" + contents_.substr(1'000'000, 10)));
  const std::string head = Ask(port(), "HEAD /file HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: " + std::to_string(kSize) + "\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST_F(FileServer, ConnectionIsKeptForFurtherRequests) {
  Start(kKeeps, /*threads=*/2);
  const std::string one = "GET /file HTTP/1.1\r\nRange: bytes=0-2\r\n\r\n";
  const std::string answers =
      Ask(port(), one + one + "GET /file HTTP/1.1\r\nConnection: close\r\nRange: bytes=3-5\r\n\r\n");
  size_t at = 0;
  for (const char* body : {"0-2/", "0-2/", "3-5/"}) {
    at = answers.find(body, at);
    ASSERT_NE(at, std::string::npos) << answers;
    ++at;
  }
  EXPECT_THAT(answers, HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_THAT(answers, EndsWith("\r\n\r\n" + contents_.substr(3, 3)));
  const std::lock_guard lock(mu_);
  ASSERT_EQ(exchanges_.size(), 3u);
  EXPECT_EQ(exchanges_[2].peer, "127.0.0.1");
  EXPECT_EQ(exchanges_[2].status, 206);
  EXPECT_TRUE(exchanges_[2].complete);
}

TEST_F(FileServer, SlowReaderIsDisconnectedAndLogged) {
  Start({.send_patience = std::chrono::milliseconds(100)});
  const TcpClient slow(port());
  slow.Send("GET /file HTTP/1.1\r\n\r\n");
  ExpectCutOff();
}

TEST_F(FileServer, SlowReaderIsDisconnectedOverTlsToo) {
  Start({.send_patience = std::chrono::milliseconds(100)}, 1, Tls());
  const support::TlsClient slow(port());
  ASSERT_TRUE(slow.Send("GET /file HTTP/1.1\r\n\r\n"));
  ExpectCutOff();
}

TEST_F(FileServer, OneThousandIdleConnectionsDoNotBlockOthers) {
  Limits limits = kKeeps;
  limits.connections = 500;
  Start(limits, /*threads=*/2);
  std::deque<TcpClient> idle;
  for (int i = 0; i < 400; ++i) idle.emplace_back(port());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) {
      idle.pop_front();
      idle.emplace_back(port());
    }
    EXPECT_THAT(Ask(port(), "GET /file HTTP/1.1\r\nConnection: close\r\nRange: bytes=0-2\r\n\r\n"),
                EndsWith("\r\n\r\n" + contents_.substr(0, 3)));
  }
}

TEST_F(FileServer, FinishCompletesRequestsInProgress) {
  Start(kKeeps);
  const TcpClient idle(port()), reader(port());
  reader.Send("GET /file HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(reader.Hears(support::kPatience));
  std::thread finish([&] { EXPECT_TRUE(server_->Finish(std::chrono::minutes(1))); });
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_THAT(reader.ReadAll(), EndsWith(contents_));
  finish.join();
  server_.reset();
}

TEST_F(FileServer, ConnectionWithoutTlsIsClosed) {
  Start(kKeeps, 1, Tls());
  EXPECT_THAT(Ask(port(), "GET /file HTTP/1.1\r\n\r\n"), testing::Not(HasSubstr("HTTP/1.1 2")));
}

}  // namespace
}  // namespace mtrun::web
