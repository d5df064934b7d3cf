// One folder of a simulated run: its checkpoints and branches, and the ledger as far as generations and steps
// go. It outlives the members. A value.
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

/// `history[k]`: generation and membership that made step k. It stands for a member's weights.
using History = std::vector<std::pair<uint64_t, int>>;

struct SimulatedState {
  int run = 0;  // a run that cannot be continued is followed by another
  checkpoints::Position position;
  History history;
  auto operator<=>(const SimulatedState&) const = default;

  checkpoints::Lineage lineage() const;
  bool IsPrefixOf(const SimulatedState& other) const;
};
/// "step 2 (generation 1) evaluated".
std::string ToText(const SimulatedState& state);

struct SimulatedLine {
  int run = 0;  // another run's lines have moved aside
  bool rewind = false;
  int64_t step = 0;
  uint64_t generation = 0;
  uint64_t of = 0;     // of a rewind
  int membership = 0;  // that made the step
  auto operator<=>(const SimulatedLine&) const = default;
};
using SimulatedLines = std::vector<SimulatedLine>;

struct SimulatedDisk {
  std::set<SimulatedState> steps, branches;  // branches: other runs' checkpoints, too
  SimulatedLines ledger;
  bool of_several_nodes = false;  // a run of several nodes has worked here
  auto operator<=>(const SimulatedDisk&) const = default;

  /// The checkpoint of the highest position, or null.
  const SimulatedState* Newest() const;
  bool HasStep(int64_t steps) const;
  /// The furthest that any checkpoint of `run` is, a branch included; -1: there is none.
  int64_t Furthest(int run) const;
  checkpoints::LedgerEnd EndOfLedger(int run) const;

  /// What other runs left moves aside.
  void GiveTo(int run);
  /// What a save with the retention rule `keep_last` does. `goes_back`: the rules of before, by which it
  /// deletes what lies further.
  void Save(const SimulatedState& state, int keep_last, bool goes_back);
  /// A writer begins at `state` and remembers its steps from `remembered` on.
  void BeginLedger(const SimulatedState& state, int64_t remembered, uint64_t generation);
};

/// The steps of `run` that count by docs/formats.md, "Which lines count", over the ledgers of all disks: step
/// -> the membership that made it. `from`: the generation at which the walk begins, if that is known. Written
/// apart from the code that reads ledgers.
std::map<int64_t, int> StepsThatCount(const std::vector<SimulatedDisk>& disks, int run,
                                      std::optional<uint64_t> from = std::nullopt);

}  // namespace mtrun::trainers
