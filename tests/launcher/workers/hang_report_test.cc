#include "launcher/workers/hang_report.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

TEST(HangReportTest, ReportsStateChannelAndKernelStack) {
  const support::TemporaryFolder folder;
  std::filesystem::create_directories(folder.File("proc/7"));
  support::WriteText(folder.File("proc/7/stat"), "7 (a) name) T 1 7 7 0\n");
  support::WriteText(folder.File("proc/7/wchan"), "do_signal_stop");
  support::WriteText(folder.File("proc/7/stack"),
                     "[<0>] do_signal_stop+0x1b0/0x2f0\n[<0>] get_signal+0x3a0/0x7d0\n");
  EXPECT_EQ(DescribeHang(folder.path(), 7),
            "pid 7 is stopped by a signal (T: SIGCONT would wake it), waits in do_signal_stop; kernel stack: "
            "do_signal_stop < get_signal");
}

TEST(HangReportTest, ReportIsShortIfLittleCanBeRead) {
  const support::TemporaryFolder folder;
  std::filesystem::create_directories(folder.File("proc/8"));
  support::WriteText(folder.File("proc/8/stat"), "8 (x) R 1 8 8 0\n");
  support::WriteText(folder.File("proc/8/wchan"), "0");
  EXPECT_EQ(DescribeHang(folder.path(), 8), "pid 8 is computing (R)");
  EXPECT_EQ(DescribeHang(folder.path(), 9), "pid 9 is gone");
}

TEST(HangReportTest, StoppedProcessIsReported) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_THAT(DescribeHang("", child), HasSubstr("is stopped by a signal"));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
}

}  // namespace
}  // namespace mtrun::launcher
