// What this machine has, without opening a CUDA context: processors this process may use, GPUs the driver
// lists.
#pragma once

#include "base/worker_env.h"
#include "launcher/options.h"

namespace mtrun::launcher {

/// `environment` may hold CUDA_VISIBLE_DEVICES.
MachineFacts LookAtMachine(const EnvironmentMap& environment);

}  // namespace mtrun::launcher
