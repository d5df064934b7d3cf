// state.json of a checkpoint: everything of a run that is not a tensor. It names no rank and no world size,
// so it is loaded by any cluster. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "trainers/checkpoints/lineage.h"
#include "trainers/checkpoints/position.h"

namespace mtrun::checkpoints {

/// What must be the same when a run continues: program, data digest, batch, seed, recipe ... as text.
using Identity = std::map<std::string, std::string>;

struct RunState {
  uint64_t run = 0;  // lineage, never 0 in a file
  Position position;
  Identity identity;
  nlohmann::json progress = nlohmann::json::object();  // the training loop's own: history, best, times
  Lineage lineage = {};                                // empty in a file of an earlier release
  bool operator==(const RunState&) const = default;
};

std::string EncodeRunState(const RunState& state);
/// kInvalidArgument names the field; kFailedPrecondition for another format version.
absl::StatusOr<RunState> DecodeRunState(std::string_view text);

/// kFailedPrecondition lists every key whose text differs or that one side lacks, except those in
/// `may_change`: "batch_size is 32, the checkpoint has 16".
absl::Status CheckSameRun(const Identity& now, const Identity& checkpoint,
                          const std::set<std::string>& may_change);

}  // namespace mtrun::checkpoints
