// mtrun --doctor [ENDPOINT]: what this machine, and the way to a service, lack for a job.
#pragma once

#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Prints a line a finding; the exit status of mtrun. Changes nothing, makes no token, blocks for some
/// seconds at most unless the system's resolver does.
int RunDoctor(const Options& options, const EnvironmentMap& environment);

}  // namespace mtrun::launcher
