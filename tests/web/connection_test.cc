// A connection whose client is the test: both ends are on one thread, and no clock matters.
#include "web/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

class CountingOwner final : public Connection::Owner {
 public:
  void OnWaits(int64_t, Waits waits) override { readers_ += waits == Waits::kReader ? 1 : 0; }
  void OnRequest(int64_t, Request) override { ++requests_; }
  void OnExchange(int64_t, const Exchange&) override {}
  void OnClosed(int64_t) override {}
  std::function<void()> WakerOf(int64_t) override {
    return [] {};
  }

  int requests() const { return requests_; }
  /// Returns how often the time for the client to read began.
  int readers() const { return readers_; }

 private:
  int requests_ = 0, readers_ = 0;
};

class ConnectionTest : public testing::Test {
 protected:
  void Start(const Limits& limits) {
    limits_ = limits;
    int ends[2];
    MT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    const int few = 4096;
    MT_CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof few) == 0);
    client_ = UniqueFd(ends[1]);
    connection_ = std::make_shared<Connection>(io_, UniqueFd(ends[0]), 1, limits_, nullptr, owner_);
    connection_->Start();
  }
  void TearDown() override {
    connection_->Close();
    io_.poll();
  }

  Limits limits_;
  CountingOwner owner_;
  boost::asio::io_context io_;
  UniqueFd client_;
  std::shared_ptr<Connection> connection_;
};

/// A client that takes a few bytes now and then would keep its connection for ever.
TEST_F(ConnectionTest, OnlyEnoughBytesRenewTheTimeToReadAnAnswer) {
  constexpr Duration kLong = std::chrono::hours(1);
  Start(
      {.request_patience = kLong, .handler_patience = kLong, .send_patience = kLong, .send_least = 100'000});
  ASSERT_TRUE(WriteAll(client_.get(), "GET / HTTP/1.1\r\n\r\n").ok());
  io_.poll();
  ASSERT_EQ(owner_.requests(), 1);
  Response response;
  response.body = std::string(1'000'000, 'x');
  connection_->Answer(response);
  EXPECT_EQ(owner_.readers(), 1);
  std::string bytes(500, '\0');
  size_t taken = 0;
  for (int turn = 0; taken < 450'000 && turn < 100'000; ++turn) {
    const ssize_t size = read(client_.get(), bytes.data(), bytes.size());
    if (size > 0) taken += static_cast<size_t>(size);
    io_.poll();
  }
  ASSERT_GE(taken, 450'000u);
  EXPECT_EQ(owner_.readers(), 1 + 4);
}

}  // namespace
}  // namespace mtrun::web
