#include "launcher/doctor/machine_findings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/counted.h"

namespace mtrun::launcher {
namespace {

// An mtrun that hosts has 32 open files, 5 more per worker (3 without log files), and one or more per node
// that it serves.
constexpr uint64_t kFewestFiles = 128, kFewFiles = 4096;
// The usual limit of a shell; data loaders pass tensors as files.
constexpr uint64_t kFewWorkerFiles = 1024;
// mtrun is three processes with 22 threads; each worker adds its own, with LibTorch several dozen.
constexpr uint64_t kFewestProcesses = 32, kFewProcesses = 512;
constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr uint64_t kFullMemory = 16 * kMiB;
constexpr uint64_t kFullDisk = 64 * kMiB;

std::string Count(uint64_t number) { return number == kNoLimit ? "any number" : absl::StrCat(number); }

Finding JudgeFiles(const LimitFacts& limits) {
  const std::string found =
      absl::StrCat("mtrun may open ", Count(limits.own_files), ", each worker ", Count(limits.worker_files));
  if (limits.own_files < kFewFiles) {
    return {limits.own_files < kFewestFiles ? Health::kFail : Health::kWarn, "open files", found,
            "raise the hard limit (ulimit -Hn 65536 as root, LimitNOFILE= of a unit, --ulimit nofile= of a "
            "container)"};
  }
  if (limits.worker_files < kFewWorkerFiles)
    return {Health::kWarn, "open files", found, "ulimit -n 4096 in the shell that starts mtrun"};
  return {Health::kOk, "open files", found};
}

Finding JudgeProcesses(const LimitFacts& limits) {
  if (limits.processes == kNoLimit) return {Health::kOk, "processes", "no limit"};
  const std::string found =
      absl::StrCat("room for ", limits.processes, " more, including threads (", limits.processes_from, ")");
  if (limits.processes >= kFewProcesses) return {Health::kOk, "processes", found};
  return {limits.processes < kFewestProcesses ? Health::kFail : Health::kWarn, "processes", found,
          "raise that limit (TasksMax= of a unit, --pids-limit of a container)"};
}

Finding JudgeLockedMemory(const LimitFacts& limits) {
  if (limits.locked_memory == kNoLimit) return {Health::kOk, "locked memory", "no limit"};
  const std::string found = HumanBytes(limits.locked_memory);
  if (!limits.infiniband)
    return {Health::kOk, "locked memory", absl::StrCat(found, ", which matters only for InfiniBand")};
  return {Health::kWarn, "locked memory", absl::StrCat(found, ", and NCCL registers more with InfiniBand"),
          "ulimit -l unlimited (LimitMEMLOCK=infinity of a unit, --ulimit memlock=-1 of a container)"};
}

}  // namespace

Findings JudgeLimits(const LimitFacts& limits) {
  return {JudgeFiles(limits), JudgeProcesses(limits), JudgeLockedMemory(limits)};
}

Finding JudgeSharedMemory(const SharedMemoryFacts& memory) {
  constexpr char kSubject[] = "shared memory";
  constexpr char kMore[] =
      "give the container more (docker run --shm-size=8g; in Kubernetes an emptyDir with medium: Memory at "
      "/dev/shm)";
  if (!memory.memory_file_error.empty()) {
    return {Health::kFail, kSubject,
            absl::StrCat("mtrun and its trainers cannot create any: ", memory.memory_file_error),
            "allow memfd_create, and memory for it"};
  }
  if (!memory.shm_error.empty()) {
    return {Health::kFail, kSubject, absl::StrCat(memory.shm_error, "; NCCL and data loaders need it"),
            "mount a tmpfs at /dev/shm that every user can write to"};
  }
  if (memory.free < kFullMemory) {
    return {
        Health::kFail, kSubject,
        absl::StrCat("/dev/shm has only ", HumanBytes(memory.free), " free; NCCL and data loaders need it"),
        absl::StrCat("remove what fills it, or ", kMore)};
  }
  const std::string found = absl::StrCat("/dev/shm has ", HumanBytes(memory.free), " free; memfd works");
  if (memory.free < kGiB) return {Health::kWarn, kSubject, found, kMore};
  return {Health::kOk, kSubject, found};
}

Finding JudgeFolder(const FolderFacts& folder) {
  if (folder.path.empty())
    return {Health::kWarn, folder.holds, "the home folder is not known",
            "set HOME or XDG_STATE_HOME; /tmp is used until then"};
  if (!folder.error.empty()) {
    if (folder.given)
      return {Health::kFail, folder.holds, folder.error,
              "set --log_dir to another one, or to /dev/null for no files"};
    if (folder.for_runs) {
      return {Health::kWarn, folder.holds, folder.error,
              "start mtrun in a folder that you can write to, or give trainers --model_folder"};
    }
    return {Health::kWarn, folder.holds, folder.error,
            "give --log_dir, or set XDG_STATE_HOME; /tmp is used until then"};
  }
  const std::string found = absl::StrCat(folder.path, " has ", HumanBytes(folder.free), " free");
  if (folder.free >= kGiB) return {Health::kOk, folder.holds, found};
  return {Health::kWarn, folder.holds, found,
          folder.free < kFullDisk
              ? "free disk space; when the disk is full, logs are lost, and a run whose folder is there waits"
              : "free disk space for logs and checkpoints"};
}

Finding JudgeGpus(const GpuFacts& gpus) {
  constexpr char kSubject[] = "GPUs";
  if (gpus.listed == 0 && gpus.usable == 0) {
    if (!gpus.has_library) return {Health::kOk, kSubject, "none: workers use processors"};
    return {Health::kWarn, kSubject, "libcuda is here, but the driver shows no GPU",
            "load the driver's module (nvidia-smi says what is wrong), or give the container its devices"};
  }
  const std::string all = Counted(std::max(gpus.listed, gpus.present), "GPU");
  if (gpus.usable == 0 || !gpus.closed.empty()) {
    return {
        Health::kWarn, kSubject,
        absl::StrCat(all, ", but ", gpus.closed.empty() ? "/dev/nvidia*" : gpus.closed, " cannot be opened"),
        "docker run --gpus all, a GPU among the limits of a pod, or the group that the device files belong "
        "to"};
  }
  if (!gpus.has_library) {
    return {Health::kWarn, kSubject, absl::StrCat(all, ", but libcuda.so.1 cannot be loaded"),
            "install the driver's libraries (libcuda1), or start the container with --gpus all"};
  }
  if (gpus.chosen && gpus.visible == 0) {
    return {Health::kWarn, kSubject,
            absl::StrCat("CUDA_VISIBLE_DEVICES=", *gpus.chosen, " leaves none of ", all),
            "unset it, or name others"};
  }
  std::string found = all;
  if (gpus.usable < gpus.present)  // limited by a batch system's control group
    found = absl::StrCat(gpus.usable, " of ", all, " may be opened here");
  else if (gpus.present < gpus.listed)
    found = absl::StrCat(gpus.present, " of ", all, " are given to this container");
  if (gpus.chosen) absl::StrAppend(&found, ", CUDA_VISIBLE_DEVICES leaves ", gpus.visible);
  if (!gpus.driver.empty()) absl::StrAppend(&found, ", driver ", gpus.driver);
  return {Health::kOk, kSubject, found};
}

Findings JudgeHost(const HostFacts& host) {
  Findings findings = JudgeLimits(host.limits);
  findings.push_back(JudgeSharedMemory(host.memory));
  for (const FolderFacts& folder : host.folders) findings.push_back(JudgeFolder(folder));
  findings.push_back(JudgeGpus(host.gpus));
  return findings;
}

bool HasRoomToAsk(const LimitFacts& limits) {
  return limits.own_files >= kFewestFiles && limits.processes >= kFewestProcesses;
}

}  // namespace mtrun::launcher
