// Which generation made each step of a state: tells an ancestor of the state from another branch of the run.
// Pure functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainers/checkpoints/position.h"

namespace mtrun::checkpoints {

/// The steps from number `from` on (counted from 0) were made in `generation`.
struct LineageEntry {
  uint64_t generation = 0;
  int64_t from = 0;
  auto operator<=>(const LineageEntry&) const = default;
};
/// Ascending in both members. The steps before the first entry are of unknown generations: old entries are
/// dropped, and checkpoints of earlier releases have none.
using Lineage = std::vector<LineageEntry>;

inline constexpr size_t kMaxLineageEntries = 1024;

/// Records that step `step` was made in `generation`.
void Extend(Lineage& lineage, uint64_t generation, int64_t step);

/// Returns whether the state of `lineage` has passed through `position`, or may have: through one among the
/// unknown steps, of a generation below those that are known. The start of the run (0 steps) is an ancestor
/// of every state; `position.steps` must not exceed the state's own steps.
bool Descends(const Lineage& lineage, const Position& position);

}  // namespace mtrun::checkpoints
