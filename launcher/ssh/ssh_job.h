// mtrun --hosts: starts an mtrun on each host by ssh, shows what they print, passes signals on, and ends as
// they end. RemoteJob decides, this performs; one thread waits for all of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// `args`: this mtrun's own, for the hosts. The exit status of the job; an error where nothing was started,
/// because of a flag. Call before the first thread.
absl::StatusOr<int> RunOverSsh(const Options& options, const std::vector<std::string>& args,
                               const EnvironmentMap& environment);

}  // namespace mtrun::launcher
