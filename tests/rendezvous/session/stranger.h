// A program that listens where clients expect the service, and answers like a web server.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/posix.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/session/test_agent.h"

namespace mtrun::rendezvous {

class Stranger {
 public:
  /// `port` 0: a free one.
  explicit Stranger(int port = 0) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Stranger() {
    shutdown(listener_.get(), SHUT_RDWR);  // ends accept()
    thread_.join();
  }
  int port() const { return port_; }

  /// Waits until so many connections have been answered.
  bool AwaitCalls(int count) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, kTestPatience, [&] { return calls_ >= count; });
  }

 private:
  void Serve() {
    static constexpr std::string_view kAnswer = "HTTP/1.0 400 Bad Request\r\n\r\n";
    while (true) {
      const UniqueFd caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (caller.get() < 0) return;
      std::array<char, 4096> greeting;  // unread data would reset the connection, and lose the answer
      (void)recv(caller.get(), greeting.data(), greeting.size(), 0);
      (void)send(caller.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
      const std::lock_guard<std::mutex> lock(mu_);
      ++calls_;
      changed_.notify_all();
    }
  }

  const UniqueFd listener_;
  int port_ = 0;
  std::mutex mu_;
  std::condition_variable changed_;
  int calls_ = 0;
  std::thread thread_;
};

}  // namespace mtrun::rendezvous
