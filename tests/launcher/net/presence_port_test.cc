#include "launcher/net/presence_port.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "base/presence_greeting.h"
#include "gtest/gtest.h"
#include "tests/support/hear.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

PresencePort OpenPort(bool on_loopback = true) {
  auto port = PresencePort::Open(on_loopback);
  EXPECT_TRUE(port.ok()) << port.status();
  return *std::move(port);
}

/// Returns a connected socket that is not yet accepted.
UniqueFd Call(const PresencePort& port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

bool SomebodyWaits(const PresencePort& port) {
  pollfd ready = {port.fd(), POLLIN, 0};
  return poll(&ready, 1, 0) == 1;
}

TEST(PresencePortTest, GreetsWithItsId) {
  for (const bool on_loopback : {true, false}) {
    PresencePort port = OpenPort(on_loopback);
    auto heard = std::async(std::launch::async, [&] { return support::HearAt(port.port()); });
    while (heard.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
      EXPECT_TRUE(port.Greet(32));
    EXPECT_EQ(heard.get(), PresenceGreeting(port.id()));
  }
}

TEST(PresencePortTest, EachHasItsOwnPortAndId) {
  const PresencePort none, first = OpenPort(), second = OpenPort();
  EXPECT_EQ(none.port(), 0);
  EXPECT_EQ(none.id(), 0u);
  EXPECT_EQ(none.fd(), -1);
  EXPECT_NE(first.id(), 0u);
  EXPECT_NE(first.id(), second.id());
  EXPECT_NE(first.port(), second.port());
}

TEST(PresencePortTest, LoopbackPortIsUnreachableFromOtherMachines) {
  const PresencePort port = OpenPort(/*on_loopback=*/true);
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ASSERT_EQ(getsockname(port.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(address.ss_family, AF_INET);
  EXPECT_EQ(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr), INADDR_LOOPBACK);
}

TEST(PresencePortTest, KernelRefusesAfterTheLastProcessExited) {
  PresencePort port = OpenPort();
  support::Program heir({"sh", "-c", "exec 3>&1 4>&1 5>&1; echo up; exec sleep 1000"});
  ASSERT_TRUE(heir.WaitForLine("up"));
  port.Close();
  EXPECT_EQ(support::HearAt(port.port(), support::Seconds(0.2)), "silent");
  heir.Signal(SIGKILL);
  heir.Wait();
  EXPECT_EQ(support::HearAt(port.port()), "refused");
}

TEST(PresencePortTest, GreetsAtMostTheGivenNumberAtOnce) {
  PresencePort port = OpenPort();
  EXPECT_TRUE(port.Greet(2)) << "nobody is there";
  const UniqueFd first = Call(port), second = Call(port), third = Call(port);
  EXPECT_TRUE(port.Greet(2));
  EXPECT_TRUE(SomebodyWaits(port));
  EXPECT_TRUE(port.Greet(2));
  EXPECT_FALSE(SomebodyWaits(port));
}

TEST(PresencePortTest, DisconnectedCallerIsHarmless) {
  PresencePort port = OpenPort();
  UniqueFd caller = Call(port);
  const linger hard = {1, 0};
  ASSERT_EQ(setsockopt(caller.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
  caller.Reset();
  EXPECT_TRUE(port.Greet(2));
}

TEST(PresencePortTest, ReportsThatItCannotAccept) {
  PresencePort port = OpenPort();
  const UniqueFd caller = Call(port);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool greeted = port.Greet(1);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(greeted);
  EXPECT_TRUE(SomebodyWaits(port));
  EXPECT_TRUE(port.Greet(1));
  EXPECT_FALSE(SomebodyWaits(port));
}

}  // namespace
}  // namespace mtrun::launcher
