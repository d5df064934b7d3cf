// Moves the files of other runs in --model_folder to its `previous_N`. Each run has the folder for itself,
// and nothing is lost. If an operation fails, it can be repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// Name of the folder that fresh_start.h creates in a run folder. It belongs to the run and moves with it.
inline constexpr char kBegunFolder[] = ".begun";

/// Returns the run in `path`, by its ledger, or by its checkpoints if it has only those; nothing if it has
/// none.
absl::StatusOr<std::optional<uint64_t>> RunIn(const std::string& path);
/// Moves everything of a run (metrics, ledger, checkpoints, report, weights) to `previous_N`, and logs it.
absl::Status MoveAside(const std::string& path);
/// Moves the files of another run to `previous_N`, and those of `run` back: members that were cut off while
/// new members began again return with the run that counts. REQUIRES: no process writes here for another run.
absl::Status GiveFolderTo(const std::string& path, uint64_t run);

}  // namespace mtrun::trainers
