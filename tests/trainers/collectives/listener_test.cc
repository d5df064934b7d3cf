#include "trainers/collectives/listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

/// Returns the address that a listener for `address` is bound to, or "" if it cannot listen.
std::string BoundTo(const std::string& address) {
  int port = 0;
  const absl::StatusOr<UniqueFd> fd = ListenTcp(address, {}, &port);
  if (!fd.ok()) return "";
  EXPECT_GT(port, 0);
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  char text[NI_MAXHOST] = "";
  EXPECT_EQ(getsockname(fd->get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  EXPECT_EQ(getnameinfo(reinterpret_cast<const sockaddr*>(&bound), size, text, sizeof text, nullptr, 0,
                        NI_NUMERICHOST),
            0);
  return text;
}

TEST(ListenerTest, LoopbackNamesAreBoundToLoopback) {
  EXPECT_EQ(BoundTo("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(BoundTo("127.0.0.9"), "127.0.0.9");
  for (const char* name : {"localhost", "LOCALHOST", "Localhost.", "node1.localhost"})
    EXPECT_TRUE(BoundTo(name) == "127.0.0.1" || BoundTo(name) == "::1") << name;
}

TEST(ListenerTest, NameThatResemblesLoopbackIsBoundToAllAddresses) {
  const std::string everywhere = BoundTo("node2");
  EXPECT_TRUE(everywhere == "::" || everywhere == "0.0.0.0") << everywhere;
  for (const char* name : {"127.example.org", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1"})
    EXPECT_EQ(BoundTo(name), everywhere) << name;
}

}  // namespace
}  // namespace mtrun::collectives
