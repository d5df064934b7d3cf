#include "launcher/observe/health.h"

#include <asio.hpp>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

/// The reply to `request`, read to its end while the loop runs.
std::string Ask(asio::io_context& io, int port, const std::string& request) {
  std::string reply;
  std::thread client([&] {
    asio::io_context own;
    asio::ip::tcp::socket socket(own);
    std::error_code error;
    socket.connect({asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)}, error);
    asio::write(socket, asio::buffer(request), error);
    asio::read(socket, asio::dynamic_buffer(reply), error);
    asio::post(io, [&] { io.stop(); });
  });
  io.restart();
  io.run();
  client.join();
  return reply;
}

TEST(HealthTest, AnswersThatTheAgentIsAlive) {
  asio::io_context io;
  const auto server = HealthServer::Start(io, 0);
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* request : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n"}) {
    const std::string reply = Ask(io, (*server)->port(), request);
    EXPECT_THAT(reply, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(reply, testing::EndsWith("\r\n\r\nalive\n"));
  }
}

TEST(HealthTest, APortInUseIsNamed) {
  asio::io_context io;
  const auto first = HealthServer::Start(io, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = HealthServer::Start(io, (*first)->port());
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr(std::to_string((*first)->port())));
}

}  // namespace
}  // namespace mtrun::launcher
