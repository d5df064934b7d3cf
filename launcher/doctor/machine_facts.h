// Examines this machine for mtrun --doctor. Leaves nothing behind.
#pragma once

#include <string>

#include "base/worker_env.h"
#include "launcher/doctor/machine_findings.h"

namespace mtrun::launcher {

/// `log_dir`: --log_dir, "" for none. `root`: the folder below which processes and GPUs are looked up: "" for
/// this machine, a folder with proc/, dev/ and sys/ in tests.
HostFacts LookAtHost(const std::string& log_dir, const EnvironmentMap& environment,
                     const std::string& root = "");

/// Examines whether mtrun could write to the folder, or if it does not exist to its nearest existing parent.
FolderFacts LookAtFolder(const std::string& holds, const std::string& path, bool given);

/// Returns how many more processes this process's control groups allow; kNoLimit if none has a limit.
uint64_t ProcessesOfGroups(const std::string& root);

}  // namespace mtrun::launcher
