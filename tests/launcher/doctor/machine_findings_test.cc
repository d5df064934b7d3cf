#include "launcher/doctor/machine_findings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(MachineFindingsTest, FileLimitsAreJudgedForMtrunAndItsWorkers) {
  const auto judge = [](uint64_t own, uint64_t worker) {
    return JudgeLimits({.own_files = own, .worker_files = worker})[0];
  };
  EXPECT_EQ(judge(1 << 20, 1024).health, Health::kOk);
  EXPECT_EQ(judge(kNoLimit, kNoLimit).found, "mtrun may open any number, each worker any number");
  EXPECT_EQ(judge(1 << 20, 256).health, Health::kWarn);
  EXPECT_THAT(judge(1 << 20, 256).mend, HasSubstr("ulimit -n 4096"));
  EXPECT_EQ(judge(1024, 1024).health, Health::kWarn);
  EXPECT_THAT(judge(1024, 1024).mend, HasSubstr("LimitNOFILE="));
  EXPECT_EQ(judge(20, 20).health, Health::kFail);
}

TEST(MachineFindingsTest, ProcessLimitCountsTheRemainingOnes) {
  const auto judge = [](uint64_t left) {
    return JudgeLimits({.processes = left, .processes_from = "ulimit -u"})[1];
  };
  EXPECT_EQ(judge(kNoLimit).found, "no limit");
  EXPECT_EQ(judge(5000).health, Health::kOk);
  EXPECT_EQ(judge(300).health, Health::kWarn);
  EXPECT_EQ(judge(3).health, Health::kFail);
  EXPECT_EQ(judge(3).found, "room for 3 more, including threads (ulimit -u)");
}

TEST(MachineFindingsTest, LockedMemoryMattersOnlyToInfiniBand) {
  const auto judge = [](uint64_t bytes, bool infiniband) {
    return JudgeLimits({.locked_memory = bytes, .infiniband = infiniband})[2];
  };
  EXPECT_EQ(judge(8 << 20, false),
            (Finding{Health::kOk, "locked memory", "8 MiB, which matters only for InfiniBand"}));
  EXPECT_EQ(judge(8 << 20, true).health, Health::kWarn);
  EXPECT_EQ(judge(kNoLimit, true).health, Health::kOk);
}

TEST(MachineFindingsTest, SharedMemory) {
  EXPECT_EQ(JudgeSharedMemory({.free = 2 * kGiB}).found, "/dev/shm has 2 GiB free; memfd works");
  const Finding container = JudgeSharedMemory({.free = 64 << 20});
  EXPECT_EQ(container.health, Health::kWarn);
  EXPECT_THAT(container.mend, HasSubstr("--shm-size"));
  const Finding full = JudgeSharedMemory({.free = 4096});
  EXPECT_EQ(full.health, Health::kFail);
  EXPECT_THAT(full.found, HasSubstr("/dev/shm has only 4 KiB free"));
  const Finding none = JudgeSharedMemory({.shm_error = "write to /dev/shm: Permission denied", .free = kGiB});
  EXPECT_EQ(none.health, Health::kFail);
  EXPECT_THAT(none.mend, HasSubstr("mount a tmpfs"));
  EXPECT_THAT(JudgeSharedMemory({.free = kGiB, .memory_file_error = "memfd_create: denied"}).found,
              HasSubstr("memfd_create: denied"));
}

TEST(MachineFindingsTest, NamedFolderMustBeWritable) {
  EXPECT_EQ(JudgeFolder({.holds = "log folder", .path = "/l", .free = 2 * kGiB}),
            (Finding{Health::kOk, "log folder", "/l has 2 GiB free"}));
  FolderFacts folder{
      .holds = "log folder", .path = "/l", .error = "write to /l: Permission denied", .given = true};
  EXPECT_EQ(JudgeFolder(folder).health, Health::kFail);
  folder.given = false;  // mtrun takes a temporary one
  EXPECT_EQ(JudgeFolder(folder).health, Health::kWarn);
  EXPECT_EQ(JudgeFolder({.holds = "log folder", .path = "/l", .free = 1 << 20}).health, Health::kWarn);
  EXPECT_THAT(JudgeFolder({.holds = "state folder"}).mend, HasSubstr("set HOME"));
}

TEST(MachineFindingsTest, Gpus) {
  EXPECT_EQ(JudgeGpus({}), (Finding{Health::kOk, "GPUs", "none: workers use processors"}));
  EXPECT_EQ(JudgeGpus({.has_library = true}).health, Health::kWarn);
  GpuFacts gpus{
      .listed = 8, .present = 8, .usable = 8, .visible = 8, .driver = "550.54.15", .has_library = true};
  EXPECT_EQ(JudgeGpus(gpus), (Finding{Health::kOk, "GPUs", "8 GPUs, driver 550.54.15"}));
  gpus.chosen = "0,1", gpus.visible = 2;
  EXPECT_EQ(JudgeGpus(gpus).found, "8 GPUs, CUDA_VISIBLE_DEVICES leaves 2, driver 550.54.15");
  gpus.chosen = "9", gpus.visible = 0;
  EXPECT_EQ(JudgeGpus(gpus).found, "CUDA_VISIBLE_DEVICES=9 leaves none of 8 GPUs");
  gpus.has_library = false;
  EXPECT_THAT(JudgeGpus(gpus).found, HasSubstr("libcuda.so.1 cannot be loaded"));
  gpus.usable = 0;
  EXPECT_EQ(JudgeGpus(gpus).found, "8 GPUs, but /dev/nvidia* cannot be opened");
  EXPECT_EQ(JudgeGpus(gpus).health, Health::kWarn);
  gpus = {.listed = 8, .present = 2, .usable = 2, .visible = 2, .has_library = true};
  EXPECT_EQ(JudgeGpus(gpus), (Finding{Health::kOk, "GPUs", "2 of 8 GPUs are given to this container"}));
  gpus.present = 8;
  EXPECT_EQ(JudgeGpus(gpus), (Finding{Health::kOk, "GPUs", "2 of 8 GPUs may be opened here"}));
  gpus.closed = "/dev/nvidia-uvm";
  EXPECT_EQ(JudgeGpus(gpus).found, "8 GPUs, but /dev/nvidia-uvm cannot be opened");
  EXPECT_EQ(JudgeGpus({.listed = 8, .has_library = true}).health, Health::kWarn);
}

TEST(MachineFindingsTest, AskingNeedsSpareProcessesAndFiles) {
  EXPECT_TRUE(HasRoomToAsk({}));
  EXPECT_FALSE(HasRoomToAsk({.processes = 10}));
  EXPECT_FALSE(HasRoomToAsk({.own_files = 40}));
}

}  // namespace
}  // namespace mtrun::launcher
