#include "tests/trainers/run/simulated_disk.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

using checkpoints::Position;

checkpoints::Lineage SimulatedState::lineage() const {
  checkpoints::Lineage lineage;
  for (size_t k = 0; k < history.size(); ++k)
    checkpoints::Extend(lineage, history[k].first, static_cast<int64_t>(k));
  return lineage;
}

bool SimulatedState::IsPrefixOf(const SimulatedState& other) const {
  return run == other.run && history.size() <= other.history.size() &&
         std::equal(history.begin(), history.end(), other.history.begin());
}

std::string ToText(const SimulatedState& state) {
  return absl::StrCat(checkpoints::ToText(state.position), state.position.evaluated ? " evaluated" : "");
}

const SimulatedState* SimulatedDisk::Newest() const {
  const auto newest = std::max_element(steps.begin(), steps.end(),
                                       [](const auto& a, const auto& b) { return a.position < b.position; });
  return newest == steps.end() ? nullptr : &*newest;
}

bool SimulatedDisk::HasStep(int64_t at) const {
  return std::any_of(steps.begin(), steps.end(),
                     [at](const SimulatedState& state) { return state.position.steps == at; });
}

int64_t SimulatedDisk::Furthest(int run) const {
  int64_t furthest = -1;
  for (const auto* part : {&steps, &branches})
    for (const SimulatedState& state : *part)
      if (state.run == run) furthest = std::max(furthest, state.position.steps);
  return furthest;
}

checkpoints::LedgerEnd SimulatedDisk::EndOfLedger(int run) const {
  checkpoints::LedgerEnd end;
  for (const SimulatedLine& line : ledger) {
    if (line.run != run || line.generation < end.generation) continue;
    end = {.generation = line.generation, .next_step = line.rewind ? line.step : line.step + 1};
  }
  return end;
}

void SimulatedDisk::GiveTo(int run) {
  for (const SimulatedState& state : steps)
    if (state.run != run) branches.insert(state);
  std::erase_if(steps, [run](const SimulatedState& state) { return state.run != run; });
}

void SimulatedDisk::Save(const SimulatedState& state, int keep_last, bool goes_back) {
  const Position& at = state.position;
  const auto same = std::find_if(steps.begin(), steps.end(), [&](const SimulatedState& other) {
    return other.position.steps == at.steps;
  });
  if (same == steps.end()) {
    steps.insert(state);
  } else if (same->position.generation < at.generation) {  // a later generation has continued before it
    if (!goes_back) branches.insert(*same);
    steps.erase(same);
    steps.insert(state);
  }
  if (goes_back)
    std::erase_if(steps, [&](const SimulatedState& other) {
      return other.position.steps > at.steps && other.position.generation < at.generation;
    });
  std::vector<SimulatedState> until;  // in order of steps
  for (const SimulatedState& other : steps)
    if (other.position.steps <= at.steps) until.push_back(other);
  std::sort(until.begin(), until.end(),
            [](const auto& a, const auto& b) { return a.position.steps < b.position.steps; });
  until.resize(until.size() - std::min(until.size(), static_cast<size_t>(keep_last)));
  for (const SimulatedState& old : until) {
    if (!checkpoints::Descends(state.lineage(), old.position) && !goes_back) branches.insert(old);
    steps.erase(old);
  }
}

void SimulatedDisk::BeginLedger(const SimulatedState& state, int64_t remembered, uint64_t generation) {
  const int64_t at = state.position.steps;
  const checkpoints::LedgerBegin begin{.steps = at,
                                       .of = at == 0 ? 0 : state.position.generation,
                                       .remembered = remembered,
                                       .lineage = state.lineage()};
  const checkpoints::LedgerContinuation how =
      checkpoints::ContinueLedger(EndOfLedger(state.run), begin, generation);
  if (how.rewinds)
    ledger.push_back(
        {.run = state.run, .rewind = true, .step = how.rewinds_to, .generation = generation, .of = how.of});
  for (int64_t step = std::max(remembered, how.appended_from); step < at; ++step) {
    const auto& [made_in, membership] = state.history[static_cast<size_t>(step)];
    ledger.push_back({.run = state.run, .step = step, .generation = made_in, .membership = membership});
  }
}

namespace {

struct SimulatedGeneration {
  std::optional<uint64_t> of;  // the generation that it continues
  int64_t begins = INT64_MAX;  // its first step
  std::map<int64_t, int> steps;
  int64_t end() const { return steps.empty() ? begins : steps.rbegin()->first + 1; }
};

}  // namespace

std::map<int64_t, int> StepsThatCount(const std::vector<SimulatedDisk>& disks, int run,
                                      std::optional<uint64_t> from) {
  std::map<uint64_t, SimulatedGeneration> generations;
  std::set<uint64_t> last_of_files;
  for (const SimulatedDisk& disk : disks) {
    uint64_t last = 0;
    for (const SimulatedLine& line : disk.ledger) {
      if (line.run != run) continue;
      SimulatedGeneration& generation = generations[line.generation];
      generation.begins = std::min(generation.begins, line.step);
      if (line.rewind) generation.of = line.of;
      if (!line.rewind) generation.steps[line.step] = line.membership;
      last = std::max(last, line.generation);
    }
    if (last != 0) last_of_files.insert(last);
  }
  if (last_of_files.empty()) return {};
  const uint64_t furthest =
      *std::max_element(last_of_files.begin(), last_of_files.end(), [&](uint64_t a, uint64_t b) {
        return std::pair(generations[a].end(), a) < std::pair(generations[b].end(), b);
      });
  std::map<int64_t, int> counted;
  int64_t until = INT64_MAX;
  for (auto at = generations.find(from.value_or(furthest));; --at) {
    const SimulatedGeneration& generation = at->second;
    for (const auto& [step, membership] : generation.steps)
      if (step < until) counted.try_emplace(step, membership);
    until = std::min(until, generation.begins);
    while (generation.of && at != generations.begin() && std::prev(at)->first > *generation.of) --at;
    if (at == generations.begin()) return counted;
  }
}

}  // namespace mtrun::trainers
