// How far a run is, and whose state is the truth when members meet after a failure
// (docs/design.md, "The life of a run"). Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"

namespace mtrun::checkpoints {

/// Ordered within one run by the number of steps first, then by the generation that finished the last one:
/// all branches of a run compute the same function of configuration, seed and data, so the furthest state is
/// as good as any, and nothing that was computed and kept is ever taken back. (docs/model has the proof, and
/// what happens if the generation comes first.) `evaluated` is the phase: the evaluation after `steps` is
/// done too.
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
/// "step 1200 (generation 3)".
std::string ToText(const Position& position);

/// A complete checkpoint as its state.json describes it, its other bytes not yet verified.
struct SavedPosition {
  uint64_t run = 0;  // lineage, 0: there is none
  Position position = {};
  bool operator==(const SavedPosition&) const = default;
};

/// What a member brings to a new generation.
struct Claim {
  uint64_t run = 0;  // lineage, 0 = none: a new or restarted process only receives
  Position position = {};
  uint64_t digest = 0;  // of its weights and optimizer state
  uint64_t known = 0;   // the highest generation that it was in, or that its folder has a line or a save of
  SavedPosition saved = {};  // the highest position of a complete checkpoint in its folder
  uint64_t gap =
      0;  // extra distance of the next generation's number, if others may have continued this state unseen
  bool operator==(const Claim&) const = default;
};

struct StatePlan {
  int source = -1;            // rank whose state counts; -1: nobody has one (a checkpoint, or a fresh start)
  Position truth = {};        // where it stands
  std::vector<int> receive;   // ranks that take it over, ascending
  std::vector<int> diverged;  // those of them that held another run
  int rival = -1;  // the lowest rank that claims the source's position and holds another state: whose
                   // counts cannot be said; -1: none
  int writer = 0;  // who writes the run's files: the lowest rank that held the state all along
  uint64_t generation = 1;  // of the steps to come: above every claimed and known one, so that positions and
                            // the lines of a ledger only grow
  std::vector<int>
      readers;  // ranks whose folder has a checkpoint of the source's run above the source's position
  bool operator==(const StatePlan&) const = default;
};

/// Returns the same plan on every member: `claims[rank]`. Within one run the highest position counts, that of
/// an intact checkpoint in any member's folder included: the members of `readers` read theirs, and the claims
/// are compared again. Of several runs, which meet if members were cut off for so long that new members began
/// the run again, the one with most steps counts.
///
/// `service_generation` is the number that the rendezvous gave this membership. It starts over with a new
/// service, therefore the claims count too. The source's `gap`, a random number, keeps apart branches that do
/// not know of each other: those that begin from checkpoints on different disks, or from a state that was
/// held while the lease was over.
StatePlan DecideSource(absl::Span<const Claim> claims, uint64_t service_generation);
/// Names the source of such a plan, its rival and their position.
std::string DescribeRivals(absl::Span<const Claim> claims, const StatePlan& plan);

}  // namespace mtrun::checkpoints
