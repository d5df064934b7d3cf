// Questions to the services of a job (mtrun --status, --drain, --evict, --stop, --logs): asks and prints.
#pragma once

#include "absl/status/status.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// REQUIRES: `options` asks a service. Blocks; prints the answer to standard output.
absl::Status AskServices(const Options& options);

}  // namespace mtrun::launcher
