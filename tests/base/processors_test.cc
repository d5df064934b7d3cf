#include "base/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/program.h"

namespace mtrun {
namespace {

using testing::Optional;

class ProcessorsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_.path() + path).parent_path());
    support::WriteText(root_.path() + path, text);
  }
  std::optional<double> Quota() { return ProcessorQuota(root_.path()); }

  const support::TemporaryFolder root_;
};

TEST_F(ProcessorsTest, ThereIsNoLimitWithoutGroups) {
  EXPECT_EQ(Quota(), std::nullopt);
  EXPECT_GE(UsableProcessors(root_.path()), 1);
}

TEST_F(ProcessorsTest, SmallestLimitOfTheGroupAndItsParentsCounts) {
  Write("/proc/self/cgroup", "0::/job/step\n");
  Write("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Write("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  EXPECT_THAT(Quota(), Optional(2.5));
  Write("/sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
  EXPECT_THAT(Quota(), Optional(2.5));
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");  // the container's own
  EXPECT_THAT(Quota(), Optional(0.5));
  EXPECT_EQ(UsableProcessors(root_.path()), 1);
}

TEST_F(ProcessorsTest, VersionOneIsRead) {
  Write("/proc/self/cgroup", "5:cpuset:/a\n4:cpu,cpuacct:/docker/x\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(Quota(), Optional(3.0));
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(ProcessorsTest, NonsenseIsIgnored) {
  for (const char* text : {"", "0 100000", "100000 0", "x y", "100000", "-5 10", "1 2 3"}) {
    Write("/proc/self/cgroup", "0::/\nnonsense\n1\n::\n");
    Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Quota(), std::nullopt) << text;
  }
  Write("/proc/self/cgroup", "0::relative\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

}  // namespace
}  // namespace mtrun
