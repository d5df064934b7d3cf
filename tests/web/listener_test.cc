#include "web/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"
#include "tests/support/tcp_client.h"

namespace mtrun::web {
namespace {

using support::TcpClient;
using testing::HasSubstr;

Listener Open(const std::string& address, int port = 0) {
  auto listener = Listen(address, port);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

Accepted AcceptOne(const Listener& listener) {
  pollfd ready = {listener.socket.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 60'000), 1);
  auto accepted = Accept(listener.socket.get());
  EXPECT_TRUE(accepted.ok() && accepted->has_value()) << accepted.status();
  return *std::move(*accepted);
}

bool ClosesOnExec(const UniqueFd& fd) { return (fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0; }

TEST(ListenerTest, AcceptsConnections) {
  for (const char* address : {"", "127.0.0.1"}) {
    const Listener listener = Open(address);
    const auto nobody = Accept(listener.socket.get());
    ASSERT_TRUE(nobody.ok()) << nobody.status();
    EXPECT_FALSE(nobody->has_value());
    const TcpClient first(listener.port), second(listener.port), other(listener.port, "127.0.0.2");
    const std::string peer = AcceptOne(listener).peer;
    EXPECT_EQ(AcceptOne(listener).peer, peer);
    EXPECT_NE(AcceptOne(listener).peer, peer);
  }
}

TEST(ListenerTest, DescriptorsAreNotInherited) {
  const Listener listener = Open("");
  EXPECT_TRUE(ClosesOnExec(listener.socket));
  const TcpClient client(listener.port);
  EXPECT_TRUE(ClosesOnExec(AcceptOne(listener).socket));
}

TEST(ListenerTest, EndOfAnAnswerDoesNotWaitForAnAcknowledgement) {
  const Listener listener = Open("");
  const TcpClient client(listener.port);
  const Accepted accepted = AcceptOne(listener);
  int at_once = 0;
  socklen_t size = sizeof at_once;
  ASSERT_EQ(getsockopt(accepted.socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, &size), 0);
  EXPECT_NE(at_once, 0);
}

TEST(ListenerTest, AllAddressesIncludesIpv4AndIpv6) {
  const Listener listener = Open("");
  const UniqueFd client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 there = {};
  there.sin6_family = AF_INET6;
  there.sin6_port = htons(static_cast<uint16_t>(listener.port));
  there.sin6_addr = in6addr_loopback;
  if (!client.valid() ||
      connect(client.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) {
    EXPECT_NE(errno, ECONNREFUSED);  // another error on a machine without IPv6
    return;
  }
  EXPECT_TRUE(AcceptOne(listener).socket.valid());
}

TEST(ListenerTest, ErrorNamesAPortInUse) {
  const Listener first = Open("");
  const absl::Status taken = Listen("", first.port).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(taken.message()), HasSubstr(std::to_string(first.port)));
}

TEST(ListenerTest, PortIsFreeAfterItsListenerIsClosed) {
  const int port = support::FreePort();
  Listener listener = Open("", port);
  {
    const TcpClient client(port);
    AcceptOne(listener);  // closed by this side first: it stays in TIME_WAIT
    client.ReadAll();
  }
  listener.socket.Reset();
  EXPECT_EQ(Open("", port).port, port);
}

TEST(ListenerTest, AddressMustBeANumericOneOfThisMachine) {
  EXPECT_EQ(Listen("localhost", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Listen("300.0.0.1", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Listen("192.0.2.1", 0).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ListenerTest, ConnectionStaysQueuedWithoutAFreeDescriptor) {
  const Listener listener = Open("");
  const TcpClient client(listener.port);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = Accept(listener.socket.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(refused.ok());
  EXPECT_TRUE(AcceptOne(listener).socket.valid());
}

}  // namespace
}  // namespace mtrun::web
