// Derives settings from Slurm's variables in a Slurm step, for `srun mtrun train.py`. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/derived_setting.h"

namespace mtrun::launcher {

/// Returns true in a process that was started by srun and not by an mtrun.
bool IsInSlurmStep(const EnvironmentMap& environment);

/// Returns true for an mtrun that was started by hand in a shell of `srun --pty`: its process group is not
/// that of the step's task. A script of `srun --pty` has the task's group.
bool IsInSlurmShell(const EnvironmentMap& environment);

/// Returns kInvalidArgument if srun starts several mtruns on a node.
absl::Status CheckOneTaskANode(const EnvironmentMap& environment);

/// Returns nnodes (first), node_rank, rdzv_endpoint, rdzv_id, and nproc_per_node if Slurm granted GPUs. The
/// endpoint is the step's first host, with a port computed from the job and step numbers; a requeued job gets
/// another id. REQUIRES: IsInSlurmStep. kInvalidArgument names the missing or malformed variable.
absl::StatusOr<std::vector<DerivedSetting>> SettingsOfSlurmStep(const EnvironmentMap& environment);

}  // namespace mtrun::launcher
