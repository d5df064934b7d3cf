// state.json of a checkpoint: everything of a run except tensors. It has no rank and no world size, so any
// cluster can load it. Pure functions.
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

/// Values that must be the same when a run continues: program, data digest, batch, seed, recipe ... as text.
using Identity = std::map<std::string, std::string>;

struct RunState {
  uint64_t run = 0;  // lineage, never 0 in a file
  Position position;
  Identity identity;
  nlohmann::json progress = nlohmann::json::object();  // training-loop data: history, best, times
  Lineage lineage = {};                                // empty in a file of an earlier release
  bool operator==(const RunState&) const = default;
};

std::string EncodeRunState(const RunState& state);
/// Returns kInvalidArgument for a wrong field, or kFailedPrecondition for another format version.
absl::StatusOr<RunState> DecodeRunState(std::string_view text);

/// Returns kFailedPrecondition with every key whose text differs, or that only one side has, except those in
/// `may_change`: "batch_size is 32, the checkpoint has 16".
absl::Status CheckSameRun(const Identity& now, const Identity& checkpoint,
                          const std::set<std::string>& may_change);

}  // namespace mtrun::checkpoints
