// A job that is told to start over (--resume=false) does so once: where all its workers have died, those that
// are started in their place with the same flags continue what it has done so far. So each node of it says in
// the run folder (`.begun`) that this run is its job's. Free of LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

/// Which mtrun this worker is of: it serves one job and outlives its workers, and no other one, of no later
/// job either, has the same name. "" without mtrun: who started the worker does not say who it is.
std::string AgentOf(const EnvironmentMap& environment);

/// Says in `folder` that `run`, which has begun there, is of the job of `agent`. OK where `agent` is "":
/// nothing is said.
absl::Status MarkBegun(const std::string& folder, const std::string& agent, uint64_t run);
/// Whether the run whose ledger or checkpoints lie in `folder` is of the job of `agent`.
bool IsBegunBy(const std::string& folder, const std::string& agent);

}  // namespace mtrun::trainers
