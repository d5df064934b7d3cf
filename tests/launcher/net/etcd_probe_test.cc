#include "launcher/net/etcd_probe.h"

#include <asio.hpp>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);     // an answer arrives much earlier
constexpr Duration kShort = std::chrono::milliseconds(100);  // if no answer arrives

/// Answers one connection with `reply`, or not at all if it is "".
class OneReply {
 public:
  explicit OneReply(const std::string& reply, const std::string& address = "127.0.0.1", int port = 0)
      : acceptor_(io_, {asio::ip::make_address(address), static_cast<uint16_t>(port)}),
        thread_([this, reply] {
          std::error_code error;
          asio::ip::tcp::socket socket(io_);
          acceptor_.accept(socket, error);
          asio::write(socket, asio::buffer(reply), error);
          if (!reply.empty()) socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
          std::string request;
          asio::read(socket, asio::dynamic_buffer(request), error);  // ends when the client disconnects
        }) {}
  ~OneReply() {
    asio::ip::tcp::socket own(io_);  // ends a wait for a connection that never came
    std::error_code ignored;
    own.connect(acceptor_.local_endpoint(), ignored);
    own.close(ignored);
    thread_.join();
  }
  Endpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

TEST(EtcdProbeTest, RecognizesEtcdByItsVersion) {
  const OneReply etcd("HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.5.9\",\"etcdcluster\":\"3.5.0\"}");
  EXPECT_TRUE(EtcdAnswers(etcd.endpoint(), kPatience));
}

TEST(EtcdProbeTest, OtherServersAreNotEtcd) {
  const OneReply other("HTTP/1.0 404 Not Found\r\n\r\n"), silent("");
  EXPECT_FALSE(EtcdAnswers(other.endpoint(), kPatience));
  EXPECT_FALSE(EtcdAnswers(silent.endpoint(), kShort));
  EXPECT_FALSE(EtcdAnswers({"127.0.0.1", support::FreePort()}, kPatience));
  EXPECT_FALSE(EtcdAnswers({"no.such.host.invalid", 1}, kShort));
}

TEST(EtcdProbeTest, AsksEveryAddressOfAName) {
  const OneReply etcd("HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.5.9\"}");
  const int port = etcd.endpoint().port;
  const auto resolves_to = [](const std::vector<std::string>& addresses) {
    return [addresses](const std::string&) { return addresses; };
  };
  // Nothing listens on 127.0.0.2.
  EXPECT_FALSE(EtcdAnswers({"etcd", port}, kPatience, resolves_to({"127.0.0.2"})));
  EXPECT_TRUE(EtcdAnswers({"etcd", port}, kPatience, resolves_to({"127.0.0.2", "127.0.0.1"})));
}

TEST(EtcdProbeTest, SilentAddressTakesNoTimeFromTheOthers) {
  const OneReply silent("");
  const int port = silent.endpoint().port;
  const OneReply etcd("HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.5.9\"}", "127.0.0.2", port);
  EXPECT_TRUE(EtcdAnswers({"etcd", port}, kPatience, [](const std::string&) {
    return std::vector<std::string>{"127.0.0.1", "127.0.0.2"};
  }));
}

}  // namespace
}  // namespace mtrun::launcher
