// Generations of a state's steps, to tell its ancestors from other branches of the run. Pure functions.
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
/// Ascending in both members. The generations of steps before the first entry are unknown: old entries are
/// dropped, and checkpoints of earlier releases have none.
using Lineage = std::vector<LineageEntry>;

inline constexpr size_t kMaxLineageEntries = 1024;

/// Records that step `step` was made in `generation`.
void Extend(Lineage& lineage, uint64_t generation, int64_t step);

/// Returns whether the state of `lineage` has passed through `position`. Also returns true if it may have:
/// the position is among the unknown steps, and its generation is below the known ones. The start of the run
/// (0 steps) is an ancestor of every state. `position.steps` must not exceed the state's own steps.
bool Descends(const Lineage& lineage, const Position& position);

}  // namespace mtrun::checkpoints
