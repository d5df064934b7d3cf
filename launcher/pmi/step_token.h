// A token for the tasks of one Slurm step (srun --mpi=pmi2) that get none from a file or variable. The first
// task makes it; the others read it from the step's key-value space, which other users cannot reach.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "base/token.h"
#include "base/worker_env.h"

namespace mtrun::launcher {

/// The connection to the process manager, and this task's identity there.
struct PmiPlace {
  int fd = -1;
  std::string job;
  int rank = 0;
  bool operator==(const PmiPlace&) const = default;
};

/// Reads PMI_FD, PMI_JOBID and PMI_RANK; kInvalidArgument names the one that is missing or malformed. Pure.
absl::StatusOr<PmiPlace> PmiPlaceOf(const EnvironmentMap& environment);

/// Returns the token of this step, which its rank 0 generates. Takes ownership of `socket`. Returns
/// PmiClient's errors, with a remedy.
absl::StatusOr<std::string> ShareTokenOfStep(UniqueFd socket, const PmiPlace& place, Duration timeout);

/// Sets MTRUN_TOKEN to the step's token if neither `source` nor a file has one and Slurm offers its key-value
/// space. Also unsets PMI's variables, because the connection cannot be used again. Call before the first
/// thread starts.
absl::Status TakeTokenOfStep(const TokenSource& source, const EnvironmentMap& environment);

}  // namespace mtrun::launcher
