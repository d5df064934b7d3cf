// A job with --resume=false starts over only once. If all its workers die, those that replace them with the
// same flags continue from what the job has done so far. For this, each node of the job records in the run
// folder (`.begun`) that the run belongs to its job. Does not depend on LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

/// Returns the name of the mtrun that started this worker, or "" without mtrun. An mtrun serves one job and
/// outlives its workers, and no other mtrun, even of a later job, has the same name.
std::string AgentOf(const EnvironmentMap& environment);

/// Records in `folder` that `run`, which has begun there, belongs to the job of `agent`. If `agent` is "",
/// records nothing and returns OK.
absl::Status MarkBegun(const std::string& folder, const std::string& agent, uint64_t run);
/// Returns whether the run in `folder`, known from its ledger or checkpoints, belongs to the job of `agent`.
bool IsBegunBy(const std::string& folder, const std::string& agent);

}  // namespace mtrun::trainers
