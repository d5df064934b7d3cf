// One folder of a simulated run, with its checkpoints and branches, and the generations and steps of the
// ledger. It outlives the members. It is a value.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/lineage.h"
#include "trainers/checkpoints/position.h"

namespace mtrun::trainers {

/// `history[k]`: generation and membership that made step k. It represents a member's weights.
using History = std::vector<std::pair<uint64_t, int>>;

struct SimulatedState {
  int run = 0;  // a run that cannot be continued is followed by another one
  checkpoints::Position position;
  History history;
  auto operator<=>(const SimulatedState&) const = default;

  checkpoints::Lineage lineage() const;
  bool IsPrefixOf(const SimulatedState& other) const;
};
/// Returns a text such as "step 2 (generation 1) evaluated".
std::string ToText(const SimulatedState& state);

struct SimulatedLine {
  int run = 0;  // lines of another run have been moved aside
  bool rewind = false;
  int64_t step = 0;
  uint64_t generation = 0;
  uint64_t of = 0;     // of a rewind: the generation that it continues
  int membership = 0;  // membership that made the step
  auto operator<=>(const SimulatedLine&) const = default;
};
using SimulatedLines = std::vector<SimulatedLine>;

struct SimulatedDisk {
  std::set<SimulatedState> steps, branches;  // `branches` includes other runs' checkpoints
  SimulatedLines ledger;
  bool of_several_nodes = false;  // a run of several nodes has worked here
  auto operator<=>(const SimulatedDisk&) const = default;

  /// Returns the checkpoint of the highest position, or null.
  const SimulatedState* Newest() const;
  bool HasStep(int64_t steps) const;
  /// Returns the highest step of any checkpoint of `run`, including branches; -1 if there is none.
  int64_t Furthest(int run) const;
  checkpoints::LedgerEnd EndOfLedger(int run) const;

  /// Moves aside what other runs left.
  void GiveTo(int run);
  /// Saves `state` with the retention rule `keep_last`. `goes_back`: uses the former rules, by which it
  /// deletes checkpoints that are ahead.
  void Save(const SimulatedState& state, int keep_last, bool goes_back);
  /// Lets a writer start at `state` that remembers the steps from `remembered` on.
  void BeginLedger(const SimulatedState& state, int64_t remembered, uint64_t generation);
};

/// Returns the steps of `run` that count by docs/formats.md, "Which lines count", over the ledgers of all
/// disks: step -> the membership that made it. `from`: the generation at which the walk starts, if it is
/// known. Implemented independently of the code that reads ledgers.
std::map<int64_t, int> StepsThatCount(const std::vector<SimulatedDisk>& disks, int run,
                                      std::optional<uint64_t> from = std::nullopt);

}  // namespace mtrun::trainers
