// mtrun --doctor [ENDPOINT]: finds what this machine and the path to a service lack for a job.
#pragma once

#include <string>

#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Prints one line per finding; returns mtrun's exit status. Changes nothing and makes no token. Blocks for a
/// few seconds at most, unless the system's resolver or a program that it asks takes longer.
/// `executable_folder`: mtrun's own.
int RunDoctor(const Options& options, const EnvironmentMap& environment,
              const std::string& executable_folder);

}  // namespace mtrun::launcher
