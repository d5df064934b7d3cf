// A token for the tasks of one Slurm step (srun --mpi=pmi2), where no file and no variable brings them one:
// the first makes it, the others read it in the step's key-value space, which other users do not reach.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "base/token.h"
#include "base/worker_env.h"

namespace mtrun::launcher {

/// Where the process manager is, and who this task is to it.
struct PmiPlace {
  int fd = -1;
  std::string job;
  int rank = 0;
  bool operator==(const PmiPlace&) const = default;
};

/// What PMI_FD, PMI_JOBID and PMI_RANK say; kInvalidArgument names the one that is missing or malformed.
/// Pure.
absl::StatusOr<PmiPlace> PmiPlaceOf(const EnvironmentMap& environment);

/// The token of this step, fresh ones made by its rank 0. Takes `socket` over. Errors as PmiClient's, with
/// what to do instead.
absl::StatusOr<std::string> ShareTokenOfStep(UniqueFd socket, const PmiPlace& place, Duration patience);

/// Does so where neither `source` nor a file has a token and Slurm offers its key-value space: the token is
/// in MTRUN_TOKEN then, and PMI's variables, by which nobody could ask again, are gone. Before the first
/// thread.
absl::Status TakeTokenOfStep(const TokenSource& source, const EnvironmentMap& environment);

}  // namespace mtrun::launcher
