#include "trainers/program/make_report.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <vector>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::trainers {
namespace {

constexpr Duration kLongPatience = std::chrono::hours(1);

class MakeReportTest : public testing::Test {
 protected:
  std::string Script(const std::string& text) {
    const std::string path = folder_.File("mtreport");
    support::WriteText(path, "#!/bin/sh\n" + text + "\n", /*executable=*/true);
    return path;
  }

  support::TemporaryFolder folder_;
};

/// Leaves this process no descriptor for as long as it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; fd >= 0;) {
      fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (fd >= 0) taken_.emplace_back(fd);
    }
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
  std::vector<UniqueFd> taken_;
};

TEST_F(MakeReportTest, ReporterGetsTheFolderAndItsStatusIsReturned) {
  const std::string program = Script("test \"$1 $2\" = '--quiet model' && exit 7");
  EXPECT_EQ(RunReporter(program, "model", false, kLongPatience).value(), 7);
  const std::string asked = Script("test \"$1 $2 $3\" = '--quiet model --result_file' && exit 8");
  EXPECT_EQ(RunReporter(asked, "model", true, kLongPatience).value(), 8);
  EXPECT_FALSE(RunReporter(folder_.File("none"), "model", false, kLongPatience).ok());
}

TEST_F(MakeReportTest, SlowReporterIsKilled) {
  EXPECT_EQ(RunReporter(Script("exec sleep 1000"), "model", false, Duration::zero()).value(), 128 + SIGKILL);
}

/// A pidfd needs a descriptor.
TEST_F(MakeReportTest, ReporterIsWaitedForWithoutDescriptors) {
  const std::string slow = Script("exec sleep 1000"), quick = folder_.File("quick");
  support::WriteText(quick, "#!/bin/sh\nexit 3\n", true);
  const NoDescriptors none;
  EXPECT_EQ(RunReporter(slow, "model", false, Duration::zero()).value(), 128 + SIGKILL);
  EXPECT_EQ(RunReporter(quick, "model", false, kLongPatience).value(), 3);
}

}  // namespace
}  // namespace mtrun::trainers
