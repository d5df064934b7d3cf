// How far a run is, and whose state is the truth when members meet after a failure
// (docs/design.md, "The life of a run"). Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace mtrun::checkpoints {

/// Compared as Raft compares logs, within one run: the generation that finished the last step first, then the
/// number of steps. `evaluated` is the phase: the evaluation after `steps` is done too.
struct Position {
  uint64_t generation = 0;
  int64_t steps = 0;  // finished, skipped ones included
  bool evaluated = false;
  auto operator<=>(const Position&) const = default;
};
/// "step 1200 (generation 3)".
std::string ToText(const Position& position);

/// What a member brings to a new generation.
struct Claim {
  uint64_t run = 0;  // lineage, 0 = none: a new or restarted process only receives
  Position position = {};
  uint64_t digest = 0;  // of its weights and optimizer state
  uint64_t known = 0;   // the highest generation that it was in, or that its folder has a line or a save of
  bool operator==(const Claim&) const = default;
};

struct StatePlan {
  int source = -1;            // rank whose state counts; -1: nobody has one (a checkpoint, or a fresh start)
  std::vector<int> receive;   // ranks that take it over, ascending
  std::vector<int> diverged;  // those of them that held another run
  int rival = -1;  // the lowest rank that claims the source's position and holds another state: whose
                   // counts cannot be said; -1: none
  int writer = 0;  // who writes the run's files: the lowest rank that held the state all along
  uint64_t generation = 1;  // of the steps to come: above every claimed and known one, so that positions and
                            // the lines of a ledger only grow
  bool operator==(const StatePlan&) const = default;
};

/// The same on every member: `claims[rank]`. Of one run the highest position counts; of several, which meet
/// when members were cut off for so long that newcomers began the run again, the one with most steps.
/// `service_generation` is the number that the rendezvous gave this membership; it starts over with a new
/// service, therefore the claims count too.
StatePlan DecideSource(absl::Span<const Claim> claims, uint64_t service_generation);
/// Names the source of such a plan, its rival and their position.
std::string DescribeRivals(absl::Span<const Claim> claims, const StatePlan& plan);

}  // namespace mtrun::checkpoints
