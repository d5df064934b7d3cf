#include "launcher/doctor/machine_facts.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class MachineFactsTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_.File(path)).parent_path());
    support::WriteText(root_.File(path), text);
  }
  const support::TemporaryFolder root_;
};

TEST_F(MachineFactsTest, SmallestControlGroupLimitsTheProcesses) {
  EXPECT_EQ(ProcessesOfGroups(root_.path()), kNoLimit);
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/pids.max", "max\n");
  EXPECT_EQ(ProcessesOfGroups(root_.path()), kNoLimit);
  Put("sys/fs/cgroup/a/pids.max", "100\n");
  Put("sys/fs/cgroup/a/pids.current", "93\n");
  EXPECT_EQ(ProcessesOfGroups(root_.path()), 7u);
  Put("sys/fs/cgroup/pids.max", "5\n");  // a container's own
  Put("sys/fs/cgroup/pids.current", "9\n");
  EXPECT_EQ(ProcessesOfGroups(root_.path()), 0u);
  Put("proc/self/cgroup", "5:pids:/a\n4:memory:/a\n");
  Put("sys/fs/cgroup/pids/a/pids.max", "20\n");
  EXPECT_EQ(ProcessesOfGroups(root_.path()), 20u);
}

TEST_F(MachineFactsTest, GpusAreFoundWithoutALibrary) {
  Put("proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n");
  for (const char* gpu : {"0000:1b:00.0", "0000:2b:00.0", "0000:3b:00.0"})
    Put(absl::StrCat("proc/driver/nvidia/gpus/", gpu, "/information"), "");
  for (const char* file : {"nvidia0", "nvidia1", "nvidiactl"}) Put(absl::StrCat("dev/", file), "");
  const GpuFacts gpus = LookAtHost("", {{"CUDA_VISIBLE_DEVICES", "1"}}, root_.path()).gpus;
  EXPECT_EQ(gpus.listed, 3);
  EXPECT_EQ(gpus.present, 2);
  EXPECT_EQ(gpus.usable, 2);
  EXPECT_EQ(gpus.visible, 1);
  EXPECT_EQ(gpus.driver, "550.54.15");
  EXPECT_EQ(gpus.closed, "/dev/nvidia-uvm");
}

TEST_F(MachineFactsTest, OnlyGpusThatCanBeOpenedAreVisible) {
  Put("proc/driver/nvidia/gpus/0000:1b:00.0/information", "Device Minor: \t 0\n");
  Put("proc/driver/nvidia/gpus/0000:2b:00.0/information", "Device Minor: \t 1\n");
  Put("dev/nvidia1", "");
  std::filesystem::create_symlink("nothing", root_.File("dev/nvidia0"));
  const GpuFacts gpus = LookAtHost("", {}, root_.path()).gpus;
  EXPECT_EQ(gpus.listed, 2);
  EXPECT_EQ(gpus.present, 2);
  EXPECT_EQ(gpus.usable, 1);
  EXPECT_EQ(gpus.visible, 1);
}

TEST_F(MachineFactsTest, FolderChecksLeaveNoTrace) {
  const std::string state = root_.File("state");
  const EnvironmentMap environment = {{"XDG_STATE_HOME", state}};
  const auto folders = [&](const std::string& log_dir) { return LookAtHost(log_dir, environment).folders; };
  ASSERT_THAT(folders(""), SizeIs(2));
  EXPECT_TRUE(folders("")[1].for_runs) << "the working folder";
  EXPECT_EQ(folders("")[0].holds, "logs and state");
  EXPECT_EQ(folders("")[0].path, state + "/mtrun");
  EXPECT_EQ(folders("")[0].error, "");
  EXPECT_GT(folders("")[0].free, 0u);
  EXPECT_FALSE(std::filesystem::exists(state));
  ASSERT_THAT(folders(root_.File("a/b/c")), SizeIs(3));
  EXPECT_EQ(folders(root_.File("a/b/c"))[0].error, "");
  EXPECT_FALSE(std::filesystem::exists(root_.File("a")));
  Put("file", "");
  EXPECT_THAT(folders(root_.File("file/logs"))[0].error, HasSubstr("file is not a folder"));
  EXPECT_THAT(folders("/proc/no/logs")[0].error, HasSubstr("make /proc/no/logs: "));
  EXPECT_THAT(folders("/dev/null"), SizeIs(2));
  EXPECT_THAT(LookAtHost("", {}).folders[0].path, "");
}

TEST_F(MachineFactsTest, ThisMachineHasPlausibleFacts) {
  const HostFacts host = LookAtHost("", {});
  EXPECT_GT(host.limits.own_files, 0u);
  EXPECT_EQ(host.memory.memory_file_error, "");
}

}  // namespace
}  // namespace mtrun::launcher
