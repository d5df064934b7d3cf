// Findings of mtrun --doctor about this machine: limits, memory, disks, GPUs. Facts in, findings out; pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"

namespace mtrun::launcher {

inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct LimitFacts {
  uint64_t own_files = kNoLimit;     // mtrun's limit: the hard one
  uint64_t worker_files = kNoLimit;  // each worker's limit: the soft one, which mtrun passes on
  uint64_t processes = kNoLimit;     // processes and threads that this user may still start
  std::string processes_from = {};   // source of that limit: "ulimit -u", "pids.max of the control group"
  uint64_t locked_memory = kNoLimit;
  bool infiniband = false;
};
struct SharedMemoryFacts {
  std::string shm_error = {};  // error of writing to /dev/shm, except for lack of space
  uint64_t free = 0;           // bytes in /dev/shm
  std::string memory_file_error = {};
};
struct FolderFacts {
  std::string holds;       // "log folder", "state folder"
  std::string path = {};   // "" if unknown
  std::string error = {};  // error of writing there
  uint64_t free = 0;       // bytes
  bool given = false;      // by a flag: mtrun uses no other one
  bool for_runs = false;   // the working folder, in which trainers make runs/NAME
};
struct GpuFacts {
  int listed = 0;                          // by the driver
  int present = 0;                         // with a device file here: a container may have fewer
  int usable = 0;                          // with a device file that this user may open
  int visible = 0;                         // left by CUDA_VISIBLE_DEVICES
  std::string driver = {};                 // version
  std::optional<std::string> chosen = {};  // CUDA_VISIBLE_DEVICES
  std::string closed = {};                 // another device file that cannot be opened, "" for none
  bool has_library = false;                // libcuda.so.1 loads
};
struct HostFacts {
  LimitFacts limits;
  SharedMemoryFacts memory;
  std::vector<FolderFacts> folders;
  GpuFacts gpus;
};

Findings JudgeLimits(const LimitFacts& limits);
Finding JudgeSharedMemory(const SharedMemoryFacts& memory);
Finding JudgeFolder(const FolderFacts& folder);
Finding JudgeGpus(const GpuFacts& gpus);
Findings JudgeHost(const HostFacts& host);

/// Returns whether a service can be queried: that needs some threads and files.
bool HasRoomToAsk(const LimitFacts& limits);

}  // namespace mtrun::launcher
