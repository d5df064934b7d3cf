// Progress of a run, and the choice of the state that counts when members meet after a failure
// (docs/design.md, "The life of a run"). Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"

namespace mtrun::checkpoints {

/// Position of a run. Within one run, it is ordered by the number of steps first, then by the generation that
/// finished the last one. All branches of a run compute the same function of configuration, seed and data, so
/// the furthest state is as good as any, and steps that were computed and kept are never taken back.
/// (docs/model has the proof, and what happens if the generation comes first.) `evaluated` is the phase: the
/// evaluation after `steps` is done too.
struct Position {
  uint64_t generation = 0;
  int64_t steps = 0;  // finished, skipped ones included
  bool evaluated = false;
  bool operator==(const Position&) const = default;
  std::strong_ordering operator<=>(const Position& other) const {
    return std::tie(steps, generation, evaluated) <=>
           std::tie(other.steps, other.generation, other.evaluated);
  }
};
/// Returns "step 1200 (generation 3)".
std::string ToText(const Position& position);

/// A complete checkpoint as its state.json describes it. Its other bytes have not been verified.
struct SavedPosition {
  uint64_t run = 0;  // lineage, 0: none
  Position position = {};
  bool operator==(const SavedPosition&) const = default;
};

/// Claim of a member: the state that it brings to a new generation.
struct Claim {
  uint64_t run = 0;  // lineage, 0: none, as in a new or restarted process, which only receives
  Position position = {};
  uint64_t digest = 0;       // digest of its weights and optimizer state
  uint64_t known = 0;        // highest generation that it was in, or that a line or save in its folder has
  SavedPosition saved = {};  // highest position of a complete checkpoint in its folder
  uint64_t gap = 0;  // added to the next generation's number if others may have continued this state unseen
  bool operator==(const Claim&) const = default;
};

struct StatePlan {
  int source = -1;           // rank whose state counts; -1: no rank has one (start from a checkpoint or anew)
  Position truth = {};       // position of that state
  std::vector<int> receive;  // ranks that receive it, ascending
  std::vector<int> diverged;  // those of them that held another run
  int rival = -1;             // lowest rank that claims the source's position with another state, so that
                              // neither can be trusted; -1: none
  int writer = 0;             // rank that writes the run's files: the lowest that already held the state
  uint64_t generation = 1;    // of the following steps: above every claimed and known one, so that positions
                              // and the lines of a ledger only grow
  std::vector<int>
      readers;  // ranks whose folder has a checkpoint of the source's run above the source's position
  bool operator==(const StatePlan&) const = default;
};

/// Returns the plan, which is the same on every member, for `claims[rank]`. Within one run the highest
/// position counts. If a member's folder has an intact checkpoint at a higher position, that counts too: the
/// members of `readers` read theirs, and the claims are compared again. If several runs meet because members
/// were cut off for so long that new members started the run again, the one with most steps counts.
///
/// `service_generation` is the number that the rendezvous gave this membership. It starts over with a new
/// service, so the claims count too. The source's `gap`, a random number, separates branches that do not know
/// of each other: those that begin from checkpoints on different disks, or from a state that was held past
/// its lease.
StatePlan DecideSource(absl::Span<const Claim> claims, uint64_t service_generation);
/// Names the source of a plan with a rival, the rival, and their position.
std::string DescribeRivals(absl::Span<const Claim> claims, const StatePlan& plan);

}  // namespace mtrun::checkpoints
