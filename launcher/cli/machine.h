// What this machine has, without opening a CUDA context: processors this process may use, GPUs the driver
// lists. Functions that take `root` read files below it: "" for this machine, a folder with proc/, dev/ and
// sys/ in tests.
#pragma once

#include <string>
#include <vector>

#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// What lies in a folder, sorted; nothing where there is none.
std::vector<std::string> NamesIn(const std::string& folder);

/// The device files of GPUs (/dev/nvidia0, ...), by their numbers.
struct GpuFiles {
  std::vector<int> present;
  std::vector<int> usable;  // that this process may open: neither its user nor its control group forbids it
};
GpuFiles FindGpuFiles(const std::string& root);
/// PCI addresses of all GPUs that the NVIDIA driver lists, by bus ("0000:1b:00.0"), lower case.
std::vector<std::string> ListedGpus(const std::string& root);
/// Of these the ones that CUDA gives numbers to, in their order: those whose device file is usable. Where
/// there is no such file at all, all of them, for the driver's tools make the files when they are needed.
std::vector<std::string> GpuAddresses(const std::string& root);
/// How many these are; of a driver that lists none the usable device files.
int CountGpus(const std::string& root);

/// What CUDA_VISIBLE_DEVICES leaves of `devices`, entry by entry as CUDA reads it: up to the first entry that
/// names no device; nothing when one is named twice; one MIG slice at most. Without the variable "0", "1",
/// ...
std::vector<std::string> VisibleGpus(int devices, const EnvironmentMap& environment);

/// `environment` may hold CUDA_VISIBLE_DEVICES, and SLURM_CPUS_ON_NODE: a Slurm that does not tie steps to
/// their processors lets them see all of the machine's.
MachineFacts LookAtMachine(const EnvironmentMap& environment, const std::string& root = "");

}  // namespace mtrun::launcher
