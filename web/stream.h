// A connection's bytes, encrypted or not, behind one face. Includes Boost: for the connection alone.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>
#include <utility>

namespace mtrun::web {

/// As boost::asio's AsyncReadStream and AsyncWriteStream, for handlers that are functions.
class Stream {
 public:
  using executor_type = boost::asio::ip::tcp::socket::executor_type;
  using Socket = boost::asio::ip::tcp::socket;

  /// `tls` outlives it; null for plain text.
  Stream(boost::asio::io_context& io, boost::asio::ssl::context* tls) : socket_(io) {
    if (tls != nullptr) tls_.emplace(socket_, *tls);
  }

  Socket& socket() { return socket_; }
  executor_type get_executor() { return socket_.get_executor(); }
  bool encrypted() const { return tls_.has_value(); }

  /// `done(error)`; at once, but not before this returns, for plain text.
  template <typename Handler>
  void Handshake(Handler done) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
  }
  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  /// Says that nothing more comes: `done(error)`.
  template <typename Handler>
  void Shutdown(Handler done) {
    if (tls_) return tls_->async_shutdown(std::move(done));
    boost::system::error_code error;
    socket_.shutdown(Socket::shutdown_send, error);
    done(error);
  }

 private:
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace mtrun::web
