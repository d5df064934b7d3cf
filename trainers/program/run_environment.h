// Environment variables other than membership that a launcher, or a test, sets for a training program. Pure
// functions, independent of LibTorch.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "trainers/step/fault_plan.h"

namespace mtrun::trainers {

struct RunEnvironment {
  std::vector<Fault> faults;  // MTRUN_FAULTS, for the processes that a job begins with
  Duration pace = {};         // MTRUN_PACE in seconds (see TrainInputs); zero: none
  Duration grace = {};        // MTRUN_SHUTDOWN_TIMEOUT, seconds from SIGTERM to SIGKILL; zero: unknown
};

/// Returns kInvalidArgument if a variable is malformed, and names it.
absl::StatusOr<RunEnvironment> ReadRunEnvironment(const EnvironmentMap& environment);

}  // namespace mtrun::trainers
