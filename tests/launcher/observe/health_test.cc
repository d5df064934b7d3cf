#include "launcher/observe/health.h"

#include <asio.hpp>
#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"

namespace mtrun::launcher {
namespace {

using support::Ask;
using support::TcpClient;
using testing::EndsWith;
using testing::StartsWith;

constexpr char kProbe[] = "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";
constexpr support::Seconds kMoment{0.3};  // any answer arrives within this time

std::unique_ptr<web::HttpServer> StartServer(asio::io_context& io,
                                             const std::atomic<bool>* takes_part = nullptr) {
  auto server =
      StartHealthServer(io, 0, [takes_part] { return takes_part == nullptr || takes_part->load(); });
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

/// Runs an agent's loop on a thread, with its health endpoint.
class HealthTest : public testing::Test {
 protected:
  ~HealthTest() override {
    io_.stop();
    loop_.join();
  }

  asio::io_context io_;
  std::atomic<bool> takes_part_ = false;
  const std::unique_ptr<web::HttpServer> server_ = StartServer(io_, &takes_part_);
  std::thread loop_{[this] { io_.run(); }};
};

TEST_F(HealthTest, AnswersThatTheAgentIsAlive) {
  for (const char* request : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n"}) {
    const std::string reply = Ask(server_->port(), request);
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(reply, EndsWith("\r\n\r\nalive\n"));
  }
}

TEST_F(HealthTest, ReadinessTellsWhetherTheNodeIsAMember) {
  constexpr char kReadiness[] = "GET /readyz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(Ask(server_->port(), kReadiness), StartsWith("HTTP/1.1 503 "));
  takes_part_ = true;
  EXPECT_THAT(Ask(server_->port(), kReadiness), EndsWith("\r\n\r\nready\n"));
  takes_part_ = false;
  EXPECT_THAT(Ask(server_->port(), kReadiness), EndsWith("\r\n\r\nnot in a generation\n"));
  EXPECT_THAT(Ask(server_->port(), kProbe), EndsWith("\r\n\r\nalive\n"));
}

// The endpoint is unencrypted and open to all clients: no answer may reveal more than another.
TEST_F(HealthTest, AnswerIsTheSameForEveryPath) {
  for (const char* target : {"/", "/status", "/metrics?job=1", "/../etc/passwd", "//host"}) {
    const std::string request =
        absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(Ask(server_->port(), request),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\n"
              "alive\n")
        << target;
  }
}

// Once, 64 silent connections blocked all probes, and a kubelet killed the node.
TEST_F(HealthTest, RenewedIdleConnectionsDoNotBlockProbes) {
  std::deque<TcpClient> idle;
  for (int i = 0; i < 64; ++i) idle.emplace_back(server_->port());
  for (int probe = 0; probe < 50; ++probe) {
    ASSERT_THAT(Ask(server_->port(), kProbe), EndsWith("\r\n\r\nalive\n")) << "probe " << probe;
    for (TcpClient& client : idle) {
      if (client.Hears(support::Seconds(0))) client = TcpClient(server_->port());
    }
  }
}

TEST_F(HealthTest, HungAgentDoesNotAnswer) {
  std::promise<void> wake;
  asio::post(io_, [&] { wake.get_future().wait(); });
  const TcpClient probe(server_->port());
  probe.Send(kProbe);
  EXPECT_FALSE(probe.Hears(kMoment));
  wake.set_value();
  EXPECT_THAT(probe.ReadAll(), EndsWith("\r\n\r\nalive\n"));
}

TEST(HealthLoopTest, OnlyWholeRequestsReachTheAgentsLoop) {
  asio::io_context io;
  const auto server = StartServer(io);
  std::deque<TcpClient> slow;
  for (int i = 0; i < 100; ++i) slow.emplace_back(server->port()).Send("GET / HTTP/1.1\r\n");
  const TcpClient probe(server->port());
  probe.Send(kProbe);
  EXPECT_EQ(io.run_one(), 1u);
  EXPECT_THAT(probe.ReadAll(), EndsWith("\r\n\r\nalive\n"));
  EXPECT_EQ(io.poll(), 0u);
}

TEST(HealthLoopTest, ErrorNamesAPortInUse) {
  asio::io_context io;
  const auto first = StartServer(io);
  const auto second = StartHealthServer(io, first->port(), [] { return true; });
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr(std::to_string(first->port())));
}

}  // namespace
}  // namespace mtrun::launcher
