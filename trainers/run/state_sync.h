// What the members of a new generation do before its first step: say how far they are, agree on whose state
// is the truth, and take it over. Collective; training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/checkpoints/position.h"
#include "trainers/collectives/cpu_group.h"

namespace mtrun::trainers {

/// Compares the members' claims; every member calls it with its own and gets the same plan. Null group: a
/// world of one. If two members hold different states of the highest position and no checkpoint lies above
/// it, all get an error that names both (IsRivalry), since neither can be trusted.
absl::StatusOr<checkpoints::StatePlan> AgreeOnState(const collectives::ProcessGroup& group, int rank,
                                                    int world_size, const checkpoints::Claim& claim,
                                                    uint64_t service_generation);

bool IsRivalry(const absl::Status& status);

/// Copies rank `source`'s values into the `tensors` (same order, shapes and dtypes on all members) of those
/// that receive, and its `text` into everybody's. Collective. kUnavailable when the group breaks; then the
/// tensors of those that receive are in an unknown state.
absl::Status TakeOver(const collectives::ProcessGroup& group, int rank, int source, bool receives,
                      const std::vector<at::Tensor>& tensors, std::string& text);

/// A number that almost surely differs when a bit differs. Device tensors are copied to the host.
uint64_t DigestOf(const std::vector<at::Tensor>& tensors);

/// The lowest rank whose `flag` is set; all members get the same.
absl::StatusOr<std::optional<int>> FirstMember(const collectives::ProcessGroup& group, bool flag);

}  // namespace mtrun::trainers
