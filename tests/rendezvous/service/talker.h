// A program on loopback that sends something to each client that connects.
#pragma once

#include <asio.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

class Talker {
 public:
  enum class Then { kClose, kReset, kStay };
  Talker(std::string text, Then then)
      : text_(std::move(text)), then_(then), acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Talker() {
    io_.stop();
    thread_.join();
  }
  Talker(const Talker&) = delete;

  int port() const { return acceptor_.local_endpoint().port(); }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port()); }

 private:
  void Accept() {
    acceptor_.async_accept([this](std::error_code error, asio::ip::tcp::socket socket) {
      if (!error) Talk(std::move(socket));
      Accept();
    });
  }
  void Talk(asio::ip::tcp::socket socket) {
    std::error_code ignored;
    asio::write(socket, asio::buffer(text_), ignored);
    if (then_ == Then::kReset) socket.set_option(asio::socket_base::linger(true, 0), ignored);
    if (then_ == Then::kStay) kept_.push_back(std::move(socket));
  }

  const std::string text_;
  const Then then_;
  asio::io_context io_;
  std::vector<asio::ip::tcp::socket> kept_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

}  // namespace mtrun::rendezvous
