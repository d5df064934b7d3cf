#include "launcher/cli/machine.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A fake machine made of files: proc/driver/nvidia/gpus and dev.
class MachineTest : public testing::Test {
 protected:
  /// `minor`: number of its device file; -1: not given by the driver.
  void Gpu(const std::string& address, int minor = -1) {
    const std::string folder = root_.path() + "/proc/driver/nvidia/gpus/" + address;
    std::filesystem::create_directories(folder);
    if (minor < 0) return;
    support::WriteText(folder + "/information",
                       absl::StrCat("Model: \t\t NVIDIA H100 PCIe\nIRQ:   \t\t 11\nDevice Minor: \t ", minor,
                                    "\nGPU Excluded:\t No\n"));
  }
  void Device(const std::string& name) {
    std::filesystem::create_directories(root_.path() + "/dev");
    support::WriteText(root_.path() + "/dev/" + name, "");
  }
  int Gpus(const EnvironmentMap& environment = {}) { return LookAtMachine(environment, root_.path()).gpus; }

  const support::TemporaryFolder root_;
};

TEST_F(MachineTest, WithoutADriverThereAreNoGpus) {
  EXPECT_EQ(Gpus(), 0);
  EXPECT_EQ(Gpus({{"CUDA_VISIBLE_DEVICES", "0"}}), 0);
  EXPECT_GE(LookAtMachine({}, root_.path()).cpus, 1);
}

TEST_F(MachineTest, CpuQuotaBoundsTheProcessors) {
  std::filesystem::create_directories(root_.path() + "/proc/self");
  std::filesystem::create_directories(root_.path() + "/sys/fs/cgroup");
  support::WriteText(root_.path() + "/proc/self/cgroup", "0::/\n");
  support::WriteText(root_.path() + "/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(LookAtMachine({}, root_.path()).cpus, 1);
}

TEST_F(MachineTest, SlurmsCpuCountBoundsTheProcessors) {
  const auto cpus = [&](const char* slurms) {
    return LookAtMachine({{"SLURM_CPUS_ON_NODE", slurms}}, root_.path()).cpus;
  };
  EXPECT_EQ(cpus("1"), 1);
  for (const char* none : {"", "0", "-1", "many", "1000000"})
    EXPECT_EQ(cpus(none), LookAtMachine({}, root_.path()).cpus) << none;
}

TEST_F(MachineTest, GpusAreCountedFromTheDriverOrTheDeviceFiles) {
  Gpu("0000:1B:00.0");
  Gpu("0000:0a:00.0");
  EXPECT_EQ(Gpus(), 2);
  EXPECT_THAT(GpuAddresses(root_.path()), ElementsAre("0000:0a:00.0", "0000:1b:00.0"));
  // A container that can use one of them.
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia1", "null"}) Device(name);
  EXPECT_EQ(Gpus(), 1);
}

/// CUDA numbers only GPUs that it can open: its 0 is the remaining one.
TEST_F(MachineTest, GpuWithoutADeviceFileHasNoNumber) {
  Gpu("0000:0A:00.0", 0);
  Gpu("0000:1B:00.0", 1);
  EXPECT_EQ(Gpus(), 2) << "the driver's tools make the files when they are needed";
  Device("nvidiactl");
  Device("nvidia1");
  EXPECT_THAT(GpuAddresses(root_.path()), ElementsAre("0000:1b:00.0"));
  EXPECT_THAT(ListedGpus(root_.path()), ElementsAre("0000:0a:00.0", "0000:1b:00.0"));
  EXPECT_EQ(Gpus(), 1);
}

TEST_F(MachineTest, GpuWithAnUnreadableDeviceFileHasNoNumber) {
  Gpu("0000:0a:00.0", 12);
  Gpu("0000:1b:00.0", 0);
  Device("nvidia12");
  std::filesystem::create_symlink("nothing", root_.path() + "/dev/nvidia0");
  EXPECT_THAT(GpuAddresses(root_.path()), ElementsAre("0000:0a:00.0"));
  EXPECT_EQ(Gpus(), 1);
  EXPECT_THAT(FindGpuFiles(root_.path()).present, ElementsAre(0, 12));
  EXPECT_THAT(FindGpuFiles(root_.path()).usable, ElementsAre(12));
  std::filesystem::remove(root_.path() + "/dev/nvidia12");
  EXPECT_EQ(Gpus(), 0);
  EXPECT_EQ(Gpus({{"CUDA_VISIBLE_DEVICES", "0"}}), 0);
}

TEST_F(MachineTest, DeviceFilesSufficeWithoutADriver) {
  for (const char* name : {"nvidia0", "nvidia1", "nvidia12", "nvidiactl"}) Device(name);
  EXPECT_EQ(Gpus(), 3);
  EXPECT_EQ(Gpus({{"CUDA_VISIBLE_DEVICES", "2,0"}}), 2);
}

TEST(VisibleGpusTest, ReadsCudaVisibleDevicesAsCudaDoes) {
  const auto visible = [](const char* value) { return VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", value}}); };
  EXPECT_THAT(VisibleGpus(2, {}), ElementsAre("0", "1"));
  EXPECT_THAT(visible("3,1"), ElementsAre("3", "1"));
  EXPECT_THAT(visible(" 0 , 2 "), ElementsAre("0", "2"));
  EXPECT_THAT(visible(""), IsEmpty());
  EXPECT_THAT(visible("-1"), IsEmpty());
  EXPECT_THAT(visible("1,-1,2"), ElementsAre("1"));
  EXPECT_THAT(visible("1,9,2"), ElementsAre("1"));
  EXPECT_THAT(visible("0,3,4,1"), ElementsAre("0", "3")) << "the first index that does not exist is 4";
  EXPECT_THAT(visible("4"), IsEmpty());
  EXPECT_THAT(visible("1,1"), IsEmpty());
  EXPECT_THAT(visible("GPU-aa,GPU-bb"), ElementsAre("GPU-aa", "GPU-bb"));
  EXPECT_THAT(visible("GPU-aa,1"), ElementsAre("GPU-aa"));
  EXPECT_THAT(visible("MIG-x,MIG-y"), ElementsAre("MIG-x"));
  EXPECT_THAT(VisibleGpus(0, {{"CUDA_VISIBLE_DEVICES", "GPU-aa"}}), IsEmpty());
}

}  // namespace
}  // namespace mtrun::launcher
