#include "launcher/observe/use_reader.h"

#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

TEST(UseReaderTest, MachineAndWorkerAreRead) {
  const support::TemporaryFolder folder;
  std::filesystem::create_directories(folder.File("proc/7"));
  const int64_t ticks = sysconf(_SC_CLK_TCK);
  const std::string second = std::to_string(ticks);
  support::WriteText(folder.File("proc/stat"), "cpu  " + second + " " + second + " " + second +
                                                   " 999999 999999 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1\n");
  support::WriteText(folder.File("proc/meminfo"), "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n");
  support::WriteText(folder.File("proc/7/stat"),
                     "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 " + second + " " + second + " 0 0 20 0 1 0 5\n");
  support::WriteText(folder.File("proc/7/statm"), "100 10 5 1 0 1 0\n");
  rendezvous::NodeUse use;
  use.workers = {{.pid = 7}, {.pid = 0}};
  ReadUse(folder.path(), &use);
  EXPECT_EQ(use.cpu, std::chrono::seconds(3));
  EXPECT_EQ(use.machine_cpus, 2);
  EXPECT_EQ(use.memory_total, 1000 << 10);
  EXPECT_EQ(use.memory, 600 << 10);
  EXPECT_EQ(use.workers[0].cpu, std::chrono::seconds(2));
  EXPECT_EQ(use.workers[0].memory, 10 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(use.workers[1].memory, 0);
}

TEST(UseReaderTest, ThisProcessHasUsage) {
  rendezvous::NodeUse use;
  use.workers = {{.pid = getpid()}};
  ReadUse("", &use);
  EXPECT_GT(use.workers[0].memory, 0);
  EXPECT_GT(use.cpus, 0);
  EXPECT_GT(use.memory_total, use.memory);
  EXPECT_GT(use.measured, Duration::zero());
}

TEST(UseReaderTest, MissingValuesAreZero) {
  const support::TemporaryFolder folder;
  rendezvous::NodeUse use;
  use.workers = {{.pid = 7}};
  ReadUse(folder.path(), &use);
  EXPECT_EQ(use.memory_total, 0);
  EXPECT_EQ(use.workers[0].cpu, Duration::zero());
}

}  // namespace
}  // namespace mtrun::launcher
