#include "launcher/net/etcd_probe.h"

#include <asio.hpp>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);     // an answer comes long before
constexpr Duration kShort = std::chrono::milliseconds(100);  // where none comes

/// Answers one connection with `reply` and nothing more; says nothing at all for "".
class OneReply {
 public:
  explicit OneReply(const std::string& reply)
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this, reply] {
          std::error_code error;
          asio::ip::tcp::socket socket(io_);
          acceptor_.accept(socket, error);
          asio::write(socket, asio::buffer(reply), error);
          if (!reply.empty()) socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
          std::string request;
          asio::read(socket, asio::dynamic_buffer(request), error);  // until the client goes
        }) {}
  ~OneReply() { thread_.join(); }
  Endpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

TEST(EtcdProbeTest, KnowsEtcdByItsVersion) {
  const OneReply etcd("HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.5.9\",\"etcdcluster\":\"3.5.0\"}");
  EXPECT_TRUE(EtcdAnswers(etcd.endpoint(), kPatience));
}

TEST(EtcdProbeTest, OthersAreNotEtcd) {
  const OneReply other("HTTP/1.0 404 Not Found\r\n\r\n"), silent("");
  EXPECT_FALSE(EtcdAnswers(other.endpoint(), kPatience));
  EXPECT_FALSE(EtcdAnswers(silent.endpoint(), kShort));
  EXPECT_FALSE(EtcdAnswers({"127.0.0.1", support::FreePort()}, kPatience));
  EXPECT_FALSE(EtcdAnswers({"no.such.host.invalid", 1}, kShort));
}

}  // namespace
}  // namespace mtrun::launcher
