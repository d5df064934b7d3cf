// What Slurm's variables say of the step that this mtrun is a task of, as settings that need not be given
// then: srun mtrun train.py. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/derived_setting.h"

namespace mtrun::launcher {

/// True in a process that srun started, and that no mtrun did.
bool IsInSlurmStep(const EnvironmentMap& environment);

/// nnodes (first), node_rank, rdzv_endpoint, rdzv_id, and nproc_per_node where Slurm gave GPUs: the
/// endpoint is on its first host, at a port that the numbers of job and step give; a job that was requeued
/// has another id. REQUIRES: IsInSlurmStep. kInvalidArgument names the variable that is missing or malformed,
/// and a step of several tasks a node, of which mtrun wants one.
absl::StatusOr<std::vector<DerivedSetting>> SettingsOfSlurmStep(const EnvironmentMap& environment);

}  // namespace mtrun::launcher
