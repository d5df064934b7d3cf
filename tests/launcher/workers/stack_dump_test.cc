#include "launcher/workers/stack_dump.h"

#include <unistd.h>

#include <asio/io_context.hpp>
#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StackDumpTest, BestAvailableToolIsUsed) {
  const StackTools all = {"/b/py-spy", "/b/eu-stack", "/b/gdb"};
  EXPECT_THAT(StackCommand(all, "/usr/bin/python3.11", 7),
              ElementsAre("/b/py-spy", "dump", "--native", "--pid", "7"));
  EXPECT_THAT(StackCommand(all, "/opt/trainers", 7), ElementsAre("/b/eu-stack", "-p", "7"));
  EXPECT_EQ(StackCommand({"", "", "/b/gdb"}, "/usr/bin/python3", 7)[0], "/b/gdb");
  EXPECT_THAT(StackCommand({}, "/usr/bin/python3", 7), IsEmpty());
}

TEST(StackDumpTest, ToolsAreSearchedInThePath) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("gdb"), "#!/bin/sh\n", true);
  support::WriteText(folder.File("eu-stack"), "not executable");
  if (geteuid() != 0) {
    EXPECT_EQ(FindStackTools("/nowhere::" + folder.path()), (StackTools{"", "", folder.File("gdb")}));
  }
  EXPECT_EQ(FindStackTools(folder.path()).gdb, folder.File("gdb"));
  EXPECT_EQ(FindStackTools(""), StackTools{});
}

TEST(StackDumpTest, KernelStacksAreUsedWithoutATool) {
  const support::TemporaryFolder folder;
  std::filesystem::create_directories(folder.File("proc/7/task/8"));
  support::WriteText(folder.File("proc/7/task/8/stat"), "8 (a) b) D 1 7\n");
  support::WriteText(folder.File("proc/7/task/8/comm"), "a) b\n");
  support::WriteText(folder.File("proc/7/task/8/wchan"), "io_schedule");
  support::WriteText(folder.File("proc/7/task/8/stack"), "[<0>] io_schedule+0x1\n");
  EXPECT_EQ(KernelStacks(folder.path(), 7),
            "thread 8 \"a) b\": state D, waits in io_schedule\n[<0>] io_schedule+0x1\n");
  EXPECT_EQ(KernelStacks(folder.path(), 9), "it is gone\n");
  EXPECT_THAT(KernelStacks("", getpid()), AllOf(HasSubstr("thread "), HasSubstr("state ")));
}

TEST(StackDumpTest, HungToolIsNotAwaited) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("eu-stack"), "#!/bin/sh\nexec sleep 600\n", true);
  const std::string path = getenv("PATH");
  setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
  const TimePoint began = MonotonicNow();
  {
    asio::io_context io;
    StackDump dump(io);
    dump.Write(folder.path(), {{"rank_0", getpid()}});
    const auto begun = [&] {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
        if (entry.path().filename() == "rank_0.txt") return true;
      }
      return false;
    };
    while (!begun()) std::this_thread::yield();  // bounded by the test's time limit
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_LT(MonotonicNow() - began, StackDump::kToolPatience);
}

}  // namespace
}  // namespace mtrun::launcher
