#include "launcher/net/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

/// 0 or the errno of binding (and listening on) the port.
int Listen(int port, bool reuse, UniqueFd* kept) {
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  if (reuse) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  if (listen(socket.get(), 1) != 0) return errno;
  *kept = std::move(socket);
  return 0;
}

TEST(HeldPortTest, OnlyWhoReusesMayListenOnIt) {
  auto held = HeldPort::Open();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_GT(held->port(), 0);
  UniqueFd listener;
  EXPECT_EQ(Listen(held->port(), false, &listener), EADDRINUSE);
  EXPECT_EQ(Listen(held->port(), true, &listener), 0);
}

TEST(HeldPortTest, EachIsAnother) {
  const auto first = HeldPort::Open(), second = HeldPort::Open();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->port(), second->port());
}

TEST(HeldPortTest, AReleasedOneIsFree) {
  for (int attempt = 0; attempt < 20; ++attempt) {  // somebody else may take it in between
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

TEST(AddressTowardsTest, KnowsLoopbackAndLiteralAddresses) {
  EXPECT_EQ(*AddressTowards({"localhost", 1}, false), "127.0.0.1");
  EXPECT_EQ(*AddressTowards({"127.0.0.1", 1}, true), "127.0.0.1");
  EXPECT_EQ(*AddressTowards({"10.1.2.3", 1}, true),
            "10.1.2.3");  // this node hosts: the others reached it there
}

TEST(AddressTowardsTest, AnUnknownNameMayBeTriedAgain) {
  const auto address = AddressTowards({"no-such-host.invalid", 1}, false);
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(address.status().message()).find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace mtrun::launcher
