// Hardware of this machine, found without a CUDA context: usable processors and the driver's GPUs. `root`:
// the folder below which files are read: "" for this machine, one with proc/, dev/ and sys/ in tests.
#pragma once

#include <string>
#include <vector>

#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Numbers of the GPUs' device files (/dev/nvidia0, ...).
struct GpuFiles {
  std::vector<int> present;
  std::vector<int> usable;  // this process may open them: permitted by both file mode and control group
};
GpuFiles FindGpuFiles(const std::string& root);
/// Returns the PCI addresses of all GPUs that the NVIDIA driver lists, by bus ("0000:1b:00.0"), lower case.
std::vector<std::string> ListedGpus(const std::string& root);
/// Returns the addresses of the GPUs that CUDA numbers, in its order: those with a usable device file. If no
/// device file exists it returns all, because the driver's tools create the files on demand.
std::vector<std::string> GpuAddresses(const std::string& root);
/// Returns the number of GPUs; if the driver lists none, the number of usable device files.
int CountGpus(const std::string& root);

/// Returns the entries of CUDA_VISIBLE_DEVICES that name one of `devices` devices, as CUDA reads it: up to
/// the first invalid entry; none if one is repeated; at most one MIG slice. If it is unset: "0", "1", ...
std::vector<std::string> VisibleGpus(int devices, const EnvironmentMap& environment);

/// `environment` may hold CUDA_VISIBLE_DEVICES and SLURM_CPUS_ON_NODE. The latter is needed because a Slurm
/// that does not bind steps to their processors shows them all of the machine's.
MachineFacts LookAtMachine(const EnvironmentMap& environment, const std::string& root = "");

}  // namespace mtrun::launcher
