// The agreement of a new generation's members before its first step: they compare positions, agree on the
// state that counts, and take it over. Collective; training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/checkpoints/position.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// Compares the members' claims. Every member passes its own and gets the same plan. Null `group`: the world
/// size is 1. If two members hold different states of the highest position and no checkpoint is above it, all
/// get an error that names both (IsRivalry), because neither can be trusted.
absl::StatusOr<checkpoints::StatePlan> AgreeOnState(const collectives::ProcessGroup& group, int rank,
                                                    int world_size, const checkpoints::Claim& claim,
                                                    uint64_t service_generation);

bool IsRivalry(const absl::Status& status);

/// Copies rank `source`'s values into the `tensors` (same order, shapes and dtypes on all members) of the
/// receiving members, and its `text` to all members. Collective. Returns kUnavailable if the group breaks;
/// the tensors of the receiving members are then in an unknown state.
absl::Status TakeOver(const collectives::ProcessGroup& group, int rank, int source, bool receives,
                      const NamedTensors& tensors, std::string& text);

/// Returns a number that almost surely differs if a bit differs. Copies device tensors to the host.
uint64_t DigestOf(const NamedTensors& tensors);

/// Returns the lowest rank whose `flag` is set, the same on all members.
absl::StatusOr<std::optional<int>> FirstMember(const collectives::ProcessGroup& group, bool flag);

}  // namespace mtrun::trainers
