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
/// GPUs of the NVIDIA driver; where device files are hidden from this container, those that are not.
int CountGpus(const std::string& root);
/// PCI addresses of the GPUs in CUDA's order by bus ("0000:1b:00.0"), lower case.
std::vector<std::string> GpuAddresses(const std::string& root);

/// What CUDA_VISIBLE_DEVICES leaves of `devices`, entry by entry as CUDA reads it: up to the first entry that
/// names no device; nothing when one is named twice; one MIG slice at most. Without the variable "0", "1",
/// ...
std::vector<std::string> VisibleGpus(int devices, const EnvironmentMap& environment);

/// `environment` may hold CUDA_VISIBLE_DEVICES, and SLURM_CPUS_ON_NODE: a Slurm that does not tie steps to
/// their processors lets them see all of the machine's.
MachineFacts LookAtMachine(const EnvironmentMap& environment, const std::string& root = "");

}  // namespace mtrun::launcher
