// What other runs left in --model_folder stands aside in its `previous_N`: each run has the folder for
// itself, and nothing is lost. All of it can be done again after a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// What fresh_start.h leaves in a run folder: it is of the run, and moves with it.
inline constexpr char kBegunFolder[] = ".begun";

/// The run that lies in `path`: by its ledger, or by the checkpoints of a folder that has only those; nothing
/// where there is none.
absl::StatusOr<std::optional<uint64_t>> RunIn(const std::string& path);
/// Moves whatever is of a run (metrics, ledger, checkpoints, report, weights) into `previous_N`, and says so.
absl::Status MoveAside(const std::string& path);
/// What is of another run moves aside, what is aside of `run` comes back: members that were cut off while
/// newcomers began again return with the run that counts. Only for who knows that nobody writes here for
/// another run.
absl::Status GiveFolderTo(const std::string& path, uint64_t run);

}  // namespace mtrun::trainers
