#include "launcher/net/held_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "gtest/gtest.h"
#include "tests/support/network.h"

namespace mtrun::launcher {
namespace {

/// Returns an IPv6 socket that also accepts IPv4.
UniqueFd MakeSocket(bool reuse) {
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  if (reuse) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return socket;
}

/// Binds `socket` to the port on all addresses or on 127.0.0.1; returns 0 or the errno.
int Bind(const UniqueFd& socket, int port, bool loopback = false) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  if (loopback) inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr);
  return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/// Binds the port and listens on it; returns 0 or the errno.
int Listen(int port, bool reuse, UniqueFd* kept) {
  UniqueFd socket = MakeSocket(reuse);
  if (const int error = Bind(socket, port); error != 0) return error;
  if (listen(socket.get(), 1) != 0) return errno;
  *kept = std::move(socket);
  return 0;
}

/// Returns what `act` returns in a process of another user.
int AsAnotherUser(const std::function<int()>& act) {
  const pid_t other = fork();
  if (other == 0) _exit(setuid(support::kNobody) == 0 ? act() : -1);
  int status = -1;
  waitpid(other, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(HeldPortTest, OnlySocketsWithReuseCanListenOnIt) {
  auto held = HeldPort::Open();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_GT(held->port(), 0);
  UniqueFd listener;
  EXPECT_EQ(Listen(held->port(), false, &listener), EADDRINUSE);
  EXPECT_EQ(Listen(held->port(), true, &listener), 0);
}

/// On all addresses and on one, and also with a socket that was bound before.
TEST(HeldPortTest, NoOtherSocketCanListenOnceItListens) {
  auto held = HeldPort::Open();
  ASSERT_TRUE(held.ok()) << held.status();
  const UniqueFd early = MakeSocket(/*reuse=*/true);
  ASSERT_EQ(Bind(early, held->port()), 0);
  ASSERT_TRUE(held->Listen().ok());
  EXPECT_EQ(listen(early.get(), 1) == 0 ? 0 : errno, EADDRINUSE);
  const UniqueFd every = MakeSocket(/*reuse=*/true), one = MakeSocket(/*reuse=*/true);
  EXPECT_EQ(Bind(every, held->port()), EADDRINUSE);
  EXPECT_EQ(Bind(one, held->port(), /*loopback=*/true), EADDRINUSE);
}

TEST(HeldPortTest, NoOtherUserCanListenOnceItListens) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  auto held = HeldPort::Open();
  ASSERT_TRUE(held.ok()) << held.status();
  const auto take = [&] {
    return AsAnotherUser([&] {
      UniqueFd listener;
      return Listen(held->port(), /*reuse=*/true, &listener);
    });
  };
  EXPECT_EQ(take(), 0) << "this is what Listen is for";
  ASSERT_TRUE(held->Listen().ok());
  EXPECT_EQ(take(), EADDRINUSE);
}

TEST(HeldPortTest, EachHasItsOwnPort) {
  const auto first = HeldPort::Open(), second = HeldPort::Open();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->port(), second->port());
}

TEST(HeldPortTest, ReleasedPortIsFree) {
  for (int attempt = 0; attempt < 20; ++attempt) {  // another process can take it in between
    auto held = HeldPort::Open();
    ASSERT_TRUE(held.ok()) << held.status();
    const int port = held->port();
    held->Release();
    UniqueFd listener;
    const int error = Listen(port, false, &listener);
    if (error == 0) return;
    EXPECT_EQ(error, EADDRINUSE);
  }
  FAIL() << "no port was free once it was released";
}

TEST(AddressTowardsTest, HandlesLoopbackAndLiteralAddresses) {
  EXPECT_EQ(*AddressTowards({"localhost", 1}, false), "127.0.0.1");
  EXPECT_EQ(*AddressTowards({"127.0.0.1", 1}, true), "127.0.0.1");
  EXPECT_EQ(*AddressTowards({"10.1.2.3", 1}, true),
            "10.1.2.3");  // this node hosts, and the others reached it there
}

TEST(AddressTowardsTest, UnknownNameIsARetryableError) {
  const auto address = AddressTowards({"no-such-host.invalid", 1}, false);
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(address.status().message()).find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace mtrun::launcher
