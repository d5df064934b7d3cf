// Looks at this machine for mtrun --doctor. Leaves nothing behind.
#pragma once

#include <string>

#include "base/worker_env.h"
#include "launcher/doctor/machine_findings.h"

namespace mtrun::launcher {

/// `log_dir`: --log_dir, "" for none. `root`: files below it are read for what processes and GPUs there are;
/// "" for this machine, a folder with proc/, dev/ and sys/ in tests.
HostFacts LookAtHost(const std::string& log_dir, const EnvironmentMap& environment,
                     const std::string& root = "");

/// Whether mtrun could write there; of a folder that it would make, where that would be.
FolderFacts LookAtFolder(const std::string& holds, const std::string& path, bool given);

/// Further processes that the control groups of this process allow; kNoLimit where none says.
uint64_t ProcessesOfGroups(const std::string& root);

}  // namespace mtrun::launcher
