#include "rendezvous/service/socket_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

std::string Named(int family, const char* address) {
  sockaddr_storage storage = {};
  storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    auto& four = reinterpret_cast<sockaddr_in&>(storage);
    inet_pton(AF_INET, address, &four.sin_addr);
    four.sin_port = htons(4242);
  } else {
    auto& six = reinterpret_cast<sockaddr_in6&>(storage);
    inet_pton(AF_INET6, address, &six.sin6_addr);
    six.sin6_port = htons(4242);
  }
  return PeerOf(storage);
}

TEST(SocketPeer, HasTheSameNameAsInGrpc) {
  EXPECT_EQ(Named(AF_INET, "10.0.0.7"), "10.0.0.7:4242");
  EXPECT_EQ(Named(AF_INET6, "fe80::1"), "[fe80::1]:4242");
  EXPECT_EQ(Named(AF_INET6, "::ffff:10.0.0.7"), "10.0.0.7:4242");
  EXPECT_EQ(PlainPeer("ipv4:10.0.0.7:4242"), "10.0.0.7:4242");
  EXPECT_EQ(PlainPeer("ipv6:%5Bfe80::1%5D:4242"), "[fe80::1]:4242");
  EXPECT_EQ(PlainPeer("ipv6:[fe80::1]:4242"), "[fe80::1]:4242");
  EXPECT_EQ(PlainPeer("ipv6:%5Bfe80::1%25252%5D:4242"), "[fe80::1]:4242");
  EXPECT_EQ(PlainPeer("ipv6:[fe80::1%252]:4242"), "[fe80::1]:4242");
  EXPECT_EQ(PlainPeer("ipv6:[fe80::1%eth0]:4242"), "[fe80::1]:4242");
  EXPECT_EQ(PlainPeer("%:]"), "]");
  EXPECT_EQ(PlainPeer(""), "");
}

}  // namespace
}  // namespace mtrun::rendezvous
