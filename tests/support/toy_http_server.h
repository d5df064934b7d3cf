// A web server of one answer, for tests of clients that meet a broken or hostile server. Plain HTTP on
// loopback.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <asio.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace mtrun::support {

struct ToyAnswer {
  int status = 200;
  std::string body = "";
  bool repeats = false;  // sends the body again and again, without an end
  Duration pause = {};   // before each body
};

/// Gives the same answer to every request, without reading more than its head. Thread-safe.
class ToyHttpServer {
 public:
  explicit ToyHttpServer(ToyAnswer answer)
      : answer_(std::move(answer)), acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this] {
          for (std::error_code error; !stopped_;) {
            asio::ip::tcp::socket socket(io_);
            acceptor_.accept(socket, error);
            if (error || stopped_) return;
            clients_.emplace_back([this](asio::ip::tcp::socket client) { Serve(std::move(client)); },
                                  std::move(socket));
          }
        }) {}
  ~ToyHttpServer() {
    stopped_ = true;
    shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    for (std::thread& client : clients_) client.join();
  }
  ToyHttpServer(const ToyHttpServer&) = delete;
  ToyHttpServer& operator=(const ToyHttpServer&) = delete;

  std::string url() const { return absl::StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port()); }
  /// Returns the number of bytes sent in bodies.
  int64_t sent() const { return sent_; }
  int requests() const { return requests_; }

 private:
  void Serve(asio::ip::tcp::socket client) {
    std::error_code error;
    std::string request;
    asio::read_until(client, asio::dynamic_buffer(request), "\r\n\r\n", error);
    if (error) return;
    ++requests_;
    const std::string length =
        answer_.repeats ? "" : absl::StrCat("Content-Length: ", answer_.body.size(), "\r\n");
    const std::string head =
        absl::StrCat("HTTP/1.1 ", answer_.status, " Toy\r\nConnection: close\r\n", length, "\r\n");
    asio::write(client, asio::buffer(head), error);
    do {
      for (Duration left = answer_.pause; left > Duration::zero() && !stopped_; left -= kStep)
        std::this_thread::sleep_for(std::min<Duration>(left, kStep));
      if (!error) sent_ += static_cast<int64_t>(asio::write(client, asio::buffer(answer_.body), error));
    } while (answer_.repeats && !error && !stopped_);
  }

  static constexpr Duration kStep = std::chrono::milliseconds(50);
  const ToyAnswer answer_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int64_t> sent_ = 0;
  std::atomic<int> requests_ = 0;
  std::list<std::thread> clients_;  // of thread_ until it ends
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace mtrun::support
