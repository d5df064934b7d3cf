#include "launcher/observe/health.h"

#include <asio.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {
namespace {

using asio::ip::tcp;

constexpr auto kPatience = std::chrono::seconds(5);  // of a client that says nothing
constexpr int kMostConnections = 64;
constexpr size_t kMostBytes = 8 << 10;
constexpr char kReply[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nalive\n";

/// One request; keeps itself alive until it is answered.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<int> open)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        buffer_(kMostBytes),
        open_(std::move(open)) {
    ++*open_;
  }
  ~Connection() { --*open_; }

  void Serve() {
    timer_.expires_after(kPatience);
    timer_.async_wait([self = shared_from_this()](std::error_code error) {
      std::error_code ignored;
      if (!error) self->socket_.close(ignored);
    });
    asio::async_read_until(socket_, buffer_, "\r\n\r\n",
                           [self = shared_from_this()](std::error_code error, size_t) {
                             if (error) return self->Close();
                             self->Answer();
                           });
  }

 private:
  void Answer() {
    asio::async_write(socket_, asio::buffer(kReply, sizeof kReply - 1),
                      [self = shared_from_this()](std::error_code, size_t) { self->Close(); });
  }

  void Close() {
    std::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    timer_.cancel();
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  asio::streambuf buffer_;
  std::shared_ptr<int> open_;  // connections, shared with the server
};

class Server : public HealthServer {
 public:
  explicit Server(asio::io_context& io) : acceptor_(io) {}

  std::error_code Listen(const tcp::endpoint& endpoint) {
    std::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && endpoint.protocol() == tcp::v6()) acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      std::error_code ignored;
      acceptor_.close(ignored);
    } else {
      Accept();
    }
    return error;
  }

  int port() const override { return acceptor_.local_endpoint().port(); }

 private:
  void Accept() {
    acceptor_.async_accept([this](std::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && *open_ < kMostConnections)
        std::make_shared<Connection>(std::move(socket), open_)->Serve();
      Accept();
    });
  }

  tcp::acceptor acceptor_;
  std::shared_ptr<int> open_ = std::make_shared<int>(0);
};

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(asio::io_context& io, int port) {
  auto server = std::make_unique<Server>(io);
  const auto number = static_cast<unsigned short>(port);
  std::error_code error = server->Listen({tcp::v6(), number});
  if (error == asio::error::address_family_not_supported) error = server->Listen({tcp::v4(), number});
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("the health endpoint cannot listen on port ", port, ": ", error.message()));
  }
  return server;
}

}  // namespace mtrun::launcher
