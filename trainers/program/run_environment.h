// What a launcher, or a test, tells a training program by environment variables beside its membership. Pure
// functions, free of LibTorch.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "trainers/step/fault_plan.h"

namespace mtrun::trainers {

struct RunEnvironment {
  std::vector<Fault> faults;  // MTRUN_FAULTS, for the processes that a job begins with
  Duration pace = {};         // MTRUN_PACE, seconds (TrainInputs has what that means); zero: none
  Duration grace = {};        // MTRUN_SHUTDOWN_TIMEOUT, seconds from SIGTERM to SIGKILL; zero: unknown
};

/// kInvalidArgument names the variable that is malformed.
absl::StatusOr<RunEnvironment> ReadRunEnvironment(const EnvironmentMap& environment);

}  // namespace mtrun::trainers
