// mtrun --doctor [ENDPOINT]: finds what this machine and the path to a service lack for a job.
#pragma once

#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Prints one line per finding; returns mtrun's exit status. Changes nothing and makes no token. Blocks for a
/// few seconds at most, unless the system's resolver takes longer.
int RunDoctor(const Options& options, const EnvironmentMap& environment);

}  // namespace mtrun::launcher
