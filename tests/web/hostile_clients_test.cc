// Clients that are slow, too many, too large or send garbage must not keep others from being served.
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <ctime>
#include <deque>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"
#include "tests/web/held_replies.h"
#include "web/http_server.h"

namespace mtrun::web {
namespace {

using support::Ask;
using support::Seconds;
using support::TcpClient;
using testing::AnyOf;
using testing::EndsWith;
using testing::StartsWith;

constexpr char kGet[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kHold[] = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kServed[] = "\r\n\r\nserved";
constexpr Limits kForever = {.request_patience = std::chrono::hours(1)};

class HostileClients : public testing::Test {
 protected:
  void Start(const Limits& limits) {
    const Handler serve = [](const Request&, const Reply& reply) { reply({.body = "served"}); };
    auto server = HttpServer::Start(
        "", 0,
        {.routes = {{"GET", "/", serve}, {"POST", "/", serve}, {"GET", "/hold", held_.handler()}},
         .limits = limits});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }

  HeldReplies held_;
  std::unique_ptr<HttpServer> server_;
};

std::string Post(size_t size) {
  return "POST / HTTP/1.1\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'x');
}

TEST_F(HostileClients, LargeRequestsAreRefused) {
  Start(kForever);
  const Limits limits;
  EXPECT_THAT(Ask(port(), "GET / HTTP/1.1\r\nA: " + std::string(limits.header_bytes / 2, 'a') + "\r\n\r\n"),
              EndsWith(kServed));
  for (const size_t size : {limits.header_bytes, 10 * limits.header_bytes}) {
    EXPECT_THAT(Ask(port(), "GET / HTTP/1.1\r\nA: " + std::string(size, 'a') + "\r\n\r\n"),
                StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(Ask(port(), "GET /" + std::string(size, 'a')), StartsWith("HTTP/1.1 431 "));
  }
  EXPECT_THAT(Ask(port(), Post(limits.body_bytes)), EndsWith(kServed));
  EXPECT_THAT(Ask(port(), Post(limits.body_bytes + 1)), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(port(), Post(100 * limits.body_bytes)), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(port(), "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" +
                              std::string(0x20000, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(HostileClients, NonsenseIsA400) {
  Start(kForever);
  for (const char* request :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n", "OPTIONS * HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    EXPECT_THAT(Ask(port(), request), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << request;
  }
  const TcpClient unfinished(port());
  unfinished.Send("GET / HTTP/1.1\r\nHost");
  unfinished.EndSending();
  EXPECT_THAT(unfinished.ReadAll(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HostileClients, IncompleteRequestIsClosed) {
  Start({.request_patience = std::chrono::milliseconds(100)});
  for (const char* part : {"", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"})
    EXPECT_EQ(Ask(port(), part), "");
}

// The kubelet and the flooding clients may share an address, for example behind a NAT.
TEST_F(HostileClients, RenewedIdleConnectionsDoNotBlockOthers) {
  Start(kForever);
  std::deque<TcpClient> idle;
  for (int i = 0; i < 80; ++i) idle.emplace_back(port()).Send(i % 2 == 0 ? "" : "GET / HTTP/1.1\r\n");
  for (int round = 0; round < 50; ++round) {
    ASSERT_THAT(Ask(port(), kGet), EndsWith(kServed)) << round;
    for (TcpClient& client : idle) {
      if (client.Hears(Seconds(0))) client = TcpClient(port());
    }
  }
}

/// Keeps `count` idle connections from `from` open, reopening them as fast as it can.
void UnauthenticatedConnections(int port, const std::string& from, int count, const std::atomic<bool>& over,
                                std::atomic<int>& renewals) {
  std::vector<TcpClient> idle;
  std::vector<pollfd> ready;
  for (int i = 0; i < count; ++i) ready.push_back({idle.emplace_back(port, from).fd(), POLLIN, 0});
  while (!over) {
    if (poll(ready.data(), ready.size(), 10) <= 0) continue;
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      idle[i] = TcpClient(port, from);
      ready[i].fd = idle[i].fd();
      ++renewals;
    }
  }
}

TEST_F(HostileClients, ManyConnectionsFromOneAddressDoNotBlockOthers) {
  Start(kForever);
  std::atomic<bool> over = false;
  std::atomic<int> renewals = 0;
  std::thread crowd([&] { UnauthenticatedConnections(port(), "127.0.0.2", 80, over, renewals); });
  int served = 0;
  for (int probe = 0; probe < 10; ++probe) {
    const TcpClient slow(port());
    slow.Send("GET / HTTP/1.1\r\n");
    const int others = renewals + 200;  // come in before it is done
    while (renewals < others) std::this_thread::yield();
    if (slow.Send("\r\n") && slow.ReadAll().ends_with(kServed)) ++served;
  }
  over = true;
  crowd.join();
  EXPECT_EQ(served, 10);
}

TEST_F(HostileClients, ConnectionWithARequestIsNotEvicted) {
  Start({.connections = 4, .request_patience = std::chrono::hours(1)});
  std::deque<TcpClient> asked;
  std::deque<Reply> replies;
  for (int i = 0; i < 4; ++i) {
    asked.emplace_back(port()).Send(kHold);
    replies.push_back(held_.Next().second);
  }
  EXPECT_EQ(Ask(port(), kGet), "");  // no slot: all others are being served
  replies[0]({.body = "served"});
  EXPECT_THAT(asked[0].ReadAll(), EndsWith(kServed));
  EXPECT_THAT(Ask(port(), kGet), EndsWith(kServed));
  for (size_t i = 1; i < 4; ++i) {
    replies[i]({.body = "served"});
    EXPECT_THAT(asked[i].ReadAll(), EndsWith(kServed));
  }
}

/// A client that has its answer, and keeps sending until it is refused or destroyed.
class LoudClient {
 public:
  explicit LoudClient(int port) : client_(port) {
    client_.Send(kGet);
    EXPECT_THAT(client_.ReadAll(), EndsWith(kServed));
    for (std::thread& thread : threads_) thread = std::thread([this] { Shout(); });
    while (sent_ < kMoreThanTheKernelHolds && !refused_) std::this_thread::yield();
  }
  ~LoudClient() {
    over_ = true;
    shutdown(client_.fd(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr size_t kBlock = 64 << 10, kMoreThanTheKernelHolds = 32 << 20;

  void Shout() {
    const std::string block(kBlock, 'x');
    while (!over_ && client_.Send(block)) sent_ += kBlock;
    refused_ = true;
  }

  const TcpClient client_;
  std::atomic<size_t> sent_ = 0;
  std::atomic<bool> over_ = false, refused_ = false;
  std::thread threads_[2];
};

TEST_F(HostileClients, ClientThatSendsAfterItsAnswerBlocksNothing) {
  Start(kForever);
  bool heard = false;
  const TcpClient other;
  std::future<void> gone;
  {
    const LoudClient loud(port());
    other.Connect(port());
    other.Send(kGet);
    heard = other.Hears(support::kPatience);
  }
  EXPECT_TRUE(heard);
  EXPECT_THAT(other.ReadAll(), EndsWith(kServed));
  {
    const LoudClient loud(port());
    gone = std::async(std::launch::async, [this] { server_.reset(); });
    EXPECT_EQ(gone.wait_for(support::kPatience), std::future_status::ready);
  }
  gone.get();
}

/// Returns the number of bytes that a client has sent and the peer has not acknowledged.
int Untaken(const TcpClient& client) {
  int bytes = 0;
  EXPECT_EQ(ioctl(client.fd(), SIOCOUTQ, &bytes), 0);
  return bytes;
}

/// While the server's thread is held, one client fills the kernel's buffers, then another sends a request.
class HeldServer : public testing::Test {
 protected:
  void SetUp() override {
    auto server = HttpServer::Start(
        "", 0,
        {.routes = {{"GET", "/", Serve()}, {"GET", "/hold", Hold()}, {"GET", "/look", Look()}},
         .limits = kForever});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    for (const TcpClient* client : {&loud_, &next_, &holds_}) client->Connect(server_->port());
  }
  /// Returns the fraction of `loud_`'s data, `block` after `block`, that is read before `next_` is served.
  double PartTakenBefore(const std::string& block) {
    holds_.Send(kHold);
    held_.get_future().wait();
    while (send(loud_.fd(), block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    const int sent = Untaken(loud_);
    next_.Send("GET /look HTTP/1.1\r\n\r\n");
    both_have_sent_.set_value();
    EXPECT_THAT(next_.ReadAll(), EndsWith(kServed));
    return 1.0 - static_cast<double>(untaken_) / sent;
  }
  const TcpClient loud_;

 private:
  static Handler Serve() {
    return [](const Request&, const Reply& reply) { reply({.body = "served"}); };
  }
  Handler Hold() {
    return [this](const Request& request, const Reply& reply) {
      held_.set_value();
      both_have_sent_.get_future().wait();
      Serve()(request, reply);
    };
  }
  Handler Look() {
    return [this](const Request& request, const Reply& reply) {
      untaken_ = Untaken(loud_);
      Serve()(request, reply);
    };
  }
  const TcpClient next_, holds_;
  std::promise<void> held_, both_have_sent_;
  int untaken_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HeldServer, NextClientIsServedBeforeExcessInputIsRead) {
  loud_.Send(kGet);
  EXPECT_THAT(loud_.ReadAll(), EndsWith(kServed));
  EXPECT_LT(PartTakenBefore(std::string(64 << 10, 'x')), 0.5);
}

TEST_F(HeldServer, NextClientIsServedBeforeABloatedBodyIsRead) {
  loud_.Send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string parts;
  for (int i = 0; i < 16; ++i) absl::StrAppend(&parts, "1;x=", std::string(4000, 'x'), "\r\na\r\n");
  EXPECT_LT(PartTakenBefore(parts), 0.5);
}

double ProcessorSeconds() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

rlim_t LowestFreeDescriptor() { return static_cast<rlim_t>(UniqueFd(fcntl(0, F_DUPFD_CLOEXEC, 0)).get()); }

TEST_F(HostileClients, RecoversFromALackOfDescriptors) {
  Start(kForever);
  const TcpClient client;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {LowestFreeDescriptor(), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const double used = ProcessorSeconds();
  client.Connect(port());
  client.Send(kGet);
  const bool heard = client.Hears(Seconds(0.5));
  const double spent = ProcessorSeconds() - used;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(heard);
  EXPECT_LT(spent, 0.05);  // 1 ms; an immediate retry would use a whole CPU
  EXPECT_THAT(client.ReadAll(), EndsWith(kServed));
}

std::string RandomRequest(std::mt19937_64& random) {
  static const std::vector<std::string> whole = {
      kGet, Post(50), "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
      "HEAD /x?y HTTP/1.0\r\nAccept: */*\r\nAccept: text/html\r\n\r\n"};
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::string bytes = whole[below(whole.size())];
  const size_t changes = below(5);
  for (size_t i = 0; i < changes; ++i) {
    switch (below(4)) {
      case 0:
        bytes[below(bytes.size())] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(1 + below(bytes.size()));
        break;
      case 2:
        bytes.insert(below(bytes.size()), 1 + below(20), static_cast<char>(random()));
        break;
      default:
        bytes += bytes.substr(below(bytes.size()));
        break;
    }
  }
  return bytes;
}

TEST_F(HostileClients, RandomBytesAreAnsweredOrClosed) {
  Start(kForever);
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "MTRUN_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = RandomRequest(random);
    const TcpClient client(port());
    client.Send(bytes);
    client.EndSending();
    ASSERT_THAT(client.ReadAll(), AnyOf("", StartsWith("HTTP/1.1 "))) << testing::PrintToString(bytes);
  }
  EXPECT_THAT(Ask(port(), kGet), EndsWith(kServed));
}

}  // namespace
}  // namespace mtrun::web
