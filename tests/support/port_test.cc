#include "tests/support/port.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/posix.h"
#include "gtest/gtest.h"

namespace mtrun::support {
namespace {

TEST(FreePortTest, ProcessesNeverGetTheSamePort) {
  constexpr int kProcesses = 4, kPorts = 100;
  int said[2], go[2];
  ASSERT_EQ(pipe(said), 0);
  ASSERT_EQ(pipe(go), 0);
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    close(go[1]);
    for (int i = 0; i < kPorts; ++i) {
      const int port = FreePort();
      if (write(said[1], &port, sizeof port) != sizeof port) _exit(1);
    }
    char end;
    _exit(read(go[0], &end, 1) == 0 ? 0 : 1);  // a port belongs to its owner until the owner ends
  }
  std::set<int> ports;
  for (int i = 0; i < kProcesses * kPorts; ++i) {
    int port = 0;
    ASSERT_EQ(read(said[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    EXPECT_TRUE(ports.insert(port).second) << port << " was given twice";
  }
  close(go[1]);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(FreePortTest, PortsAreOutsideTheKernelsEphemeralRange) {
  int first = 0, last = 0;
  ASSERT_TRUE(std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last);
  if (first < 11001 && last > 64535) GTEST_SKIP() << "the kernel gives away almost every port here";
  const int port = FreePort();
  EXPECT_TRUE(port < first || port > last) << port << " lies between " << first << " and " << last;
}

}  // namespace
}  // namespace mtrun::support
