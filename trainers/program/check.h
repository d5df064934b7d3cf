// --check: what a command would train and what is wrong with it, without training.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/program/data.h"
#include "trainers/program/run_setup.h"
#include "trainers/run/rules/identity.h"

namespace mtrun::trainers {

/// Checks the run folder on each node's first worker, because any of them can become the writer. If the disk
/// is full, or is read-only and already holds a run, this only warns: the disk may recover before the worker
/// writes. Any other error ends the worker, and the launcher does not retry it.
absl::Status CheckFolder(const Run& run);

/// Returns the properties that a run's workers and checkpoints must share. `draws`: the task draws random
/// numbers.
RunIdentity IdentityOf(const Run& run, const datasets::PackedSplit& train, bool draws);

/// Checks image sizes, the weights to start from, the newest checkpoint and the run folder, and prints what
/// the run will be. An mtrun that asks gets no such text, and no network is made for it without weights.
/// Returns all that is wrong, one a line.
absl::StatusOr<int> CheckRun(Run& run, const RunData& data);

/// Does so without the data of a server, because fetching it is slow and can wait forever. That is left to
/// workers: mtrun watches them and gives them their key, so this process needs none. Weights are only read.
absl::StatusOr<int> CheckWithoutData(Run& run);

}  // namespace mtrun::trainers
