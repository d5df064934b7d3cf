// Connections of unknown clients to a service that requires a token.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/status_client.h"
#include "tests/rendezvous/session/session_fixture.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr size_t kFiles = 2048;

/// At most a quarter of `kFiles` may be unknown to the service.
class ServiceStrangersTest : public SessionTest {
 protected:
  ServiceStrangersTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = kFiles;
    setrlimit(RLIMIT_NOFILE, &few);
    log::SetSink([this](std::string line) {
      const MutexLock lock(mutex_);
      lines_.push_back(std::move(line));
    });
    StartService(/*insecure=*/false);
  }
  ~ServiceStrangersTest() override {
    service_.reset();
    log::SetSink(nullptr);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  UniqueFd Connect(const std::string& says = "") const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
    if (!says.empty()) (void)send(socket.get(), says.data(), says.size(), MSG_NOSIGNAL);
    return socket;
  }
  /// Returns whether the service has closed it, or closes it within `patience_ms`.
  static bool IsCut(const UniqueFd& socket, int patience_ms) {
    pollfd ends = {socket.get(), POLLRDHUP, 0};
    return poll(&ends, 1, patience_ms) > 0;
  }
  void ExpectANodeIsServed() const {
    TestAgent node("node1", SecureOptions());
    node.Offer();
    EXPECT_GE(node.NextGeneration().number, 1u);
  }
  std::vector<std::string> Lines() {
    const MutexLock lock(mutex_);
    return lines_;
  }

 private:
  rlimit before_{};
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

/// The oldest are closed at once for newer ones; after 10 s each would be closed anyway.
TEST_F(ServiceStrangersTest, IdleConnectionsDoNotExhaustTheDescriptors) {
  constexpr size_t kTooMany = 100;
  const TimePoint at_once = MonotonicNow() + std::chrono::seconds(5);
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kFiles / 4 + kTooMany; ++i) {
    strangers.push_back(Connect());
    ASSERT_TRUE(strangers.back().valid()) << i;
  }
  for (size_t i = 0; i < kTooMany; ++i) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(at_once - MonotonicNow());
    EXPECT_TRUE(IsCut(strangers[i], std::max(0, static_cast<int>(left.count())))) << i;
  }
  EXPECT_FALSE(IsCut(strangers[kTooMany], 0));
  EXPECT_FALSE(IsCut(strangers.back(), 0));
  ExpectANodeIsServed();
  EXPECT_THAT(Lines(),
              Contains(AllOf(HasSubstr("turned away 127.0.0.1:"), HasSubstr("too many connections"))));
}

TEST_F(ServiceStrangersTest, NodeIsServedDuringAConnectionFlood) {
  std::atomic<bool> over = false;
  std::thread flood([&] {
    std::vector<UniqueFd> strangers(kFiles / 4);
    for (size_t i = 0; !over; ++i) {
      strangers[i % strangers.size()] = Connect(i % 2 == 0 ? "\x16\x03\x01" : "");
      // A thousand a second from one machine: a client that needs half a second for a handshake is displaced
      // too.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < 5; ++i) ExpectANodeIsServed();
  over = true;
  flood.join();
}

TEST_F(ServiceStrangersTest, IncompleteHandshakeIsClosedAfterTenSeconds) {
  const UniqueFd half = Connect(std::string("\x16\x03\x01\x02\x00", 5));  // the start of a TLS hello
  EXPECT_FALSE(IsCut(half, 0));
  EXPECT_TRUE(IsCut(half, 60'000));
  ExpectANodeIsServed();
}

/// A service of a list checks whether another one listens.
TEST_F(ServiceStrangersTest, PortCheckIsNotLogged) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Connect().valid());
  ExpectANodeIsServed();
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("turned away"))));
  const UniqueFd garbage = Connect("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(IsCut(garbage, 60'000));
  ExpectANodeIsServed();
  EXPECT_THAT(Lines(), Contains(HasSubstr("turned away")));
}

TEST_F(ServiceStrangersTest, WrongTokenIsLoggedWithItsPeer) {
  const auto refused =
      ReadServiceId(endpoint(), /*insecure=*/false, support::kOtherToken, std::chrono::seconds(30));
  EXPECT_TRUE(absl::IsUnauthenticated(refused.status())) << refused.status();
  while (Lines().empty()) std::this_thread::yield();
  EXPECT_THAT(Lines(), Contains(AllOf(HasSubstr("turned away 127.0.0.1:"), HasSubstr("token"))));
}

/// Independent of their number.
TEST_F(ServiceStrangersTest, RefusedConnectionsAreLoggedAtMostOncePerSecond) {
  const TimePoint begin = MonotonicNow();
  size_t strangers = 0;
  for (; Lines().size() < 3; ++strangers) {
    const UniqueFd garbage = Connect("GET / HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(IsCut(garbage, 60'000));
  }
  EXPECT_GE(MonotonicNow() - begin, std::chrono::seconds(2));
  size_t told = 0;
  for (const std::string& line : Lines()) {
    EXPECT_THAT(line, AllOf(HasSubstr("turned away 127.0.0.1:"), HasSubstr("token")));
    const size_t more = line.rfind(" (");  // "(7 since the last such line)"
    const bool several = line.find(" since the last such line)") != std::string::npos;
    told += several ? std::stoul(line.substr(more + 2)) : 1;
  }
  EXPECT_LE(told, strangers);
  EXPECT_GT(told, Lines().size()) << "those of whom no line told are counted";
}

}  // namespace
}  // namespace mtrun::rendezvous
