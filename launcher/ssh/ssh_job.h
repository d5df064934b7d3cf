// mtrun --hosts: starts an mtrun on each host by ssh, shows their output, forwards signals, and exits with
// their status. RemoteJob decides, this performs; a single thread waits for everything.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// `args`: this mtrun's own, for the hosts. Returns the exit status of the job; an error if a wrong flag kept
/// it from starting anything. Call before the first thread starts.
absl::StatusOr<int> RunOverSsh(const Options& options, const std::vector<std::string>& args,
                               const EnvironmentMap& environment);

}  // namespace mtrun::launcher
