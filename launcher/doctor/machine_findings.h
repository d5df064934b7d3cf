// What mtrun --doctor makes of this machine: limits, memory, disks, GPUs. Facts in, findings out; pure.
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
  uint64_t own_files = kNoLimit;     // that mtrun may open: the hard limit
  uint64_t worker_files = kNoLimit;  // that each worker may: the soft one, which mtrun hands on
  uint64_t processes = kNoLimit;     // further ones, threads among them, that this user may start
  std::string processes_from = {};   // which limit that is: "ulimit -u", "pids.max of the control group"
  uint64_t locked_memory = kNoLimit;
  bool infiniband = false;
};
struct SharedMemoryFacts {
  std::string shm_error = {};  // why nothing can be written to /dev/shm, beside a lack of room
  uint64_t free = 0;           // bytes of it
  std::string memory_file_error = {};
};
struct FolderFacts {
  std::string holds;       // "log folder", "state folder"
  std::string path = {};   // "" where none is known
  std::string error = {};  // why nothing can be written there
  uint64_t free = 0;       // bytes
  bool given = false;      // by a flag: mtrun takes no other one
};
struct GpuFacts {
  int listed = 0;           // by the driver
  int present = 0;          // that have a device file here: a container may be given some alone
  int usable = 0;           // whose device files this user may open
  int visible = 0;          // what CUDA_VISIBLE_DEVICES leaves
  std::string driver = {};  // its version
  std::optional<std::string> chosen = {};  // CUDA_VISIBLE_DEVICES
  std::string closed = {};                 // a device file beside them that cannot be opened, "" for none
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

/// Whether a question to a service can be asked at all: it needs some threads and files.
bool HasRoomToAsk(const LimitFacts& limits);

}  // namespace mtrun::launcher
