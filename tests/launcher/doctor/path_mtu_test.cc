#include "launcher/doctor/path_mtu.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/posix.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"

namespace mtrun::launcher {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

TEST(PathMtuTest, RefusingHostProvesThatPacketsArrive) {
  const sockaddr_in address = Loopback(support::FreePort());
  const PathMtu found = ProbePathMtu(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  EXPECT_GE(found.bytes, 1280);
  EXPECT_EQ(found.proof, MtuProof::kArrives);
}

TEST(PathMtuTest, ListeningPortProvesNothing) {
  const UniqueFd listener(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const PathMtu found = ProbePathMtu(reinterpret_cast<const sockaddr*>(&address), size);
  EXPECT_GE(found.bytes, 1280);
  EXPECT_EQ(found.proof, MtuProof::kNone);
}

}  // namespace
}  // namespace mtrun::launcher
