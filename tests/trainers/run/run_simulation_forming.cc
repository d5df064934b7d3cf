// How the members of a simulated run meet: who joins, whose state counts, and who writes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/trainers/run/run_simulation.h"

namespace mtrun::trainers {

using checkpoints::Claim;
using checkpoints::Position;
using checkpoints::StatePlan;
using Lines = RunSimulation::Lines;
using Phase = SimulatedMember::Phase;

bool RunSimulation::CanForm(int joins) const {
  bool somebody_waits = joins > 0;
  for (const SimulatedMember& m : members_) {
    if (m.phase == Phase::kRunning || m.phase == Phase::kTogether) return false;
    somebody_waits = somebody_waits || m.phase == Phase::kWaiting;
  }
  return somebody_waits;
}

StatePlan RunSimulation::Compare() const {
  std::vector<Claim> claims;
  for (const int i : ranks_) {
    const SimulatedMember& m = at(i);
    const auto run = static_cast<uint64_t>(m.state.run);
    Claim claim{.known = m.known};
    if (m.carries) claim = {.run = run, .position = m.state.position, .digest = 1, .known = m.known};
    claims.push_back(claim);
  }
  // A new service each time, which counts from 1. Where no folder is shared, who was away has nothing but the
  // service to know by what others have done.
  const uint64_t counted = own_folders_ ? static_cast<uint64_t>(memberships_) + 1 : 1;
  return checkpoints::DecideSource(claims, counted);
}

/// One reader a node: with a shared disk the first member.
void RunSimulation::LoadNewest() {
  for (const int i : ranks_) {
    if ((!own_folders_ && i != ranks_.front()) || DiskOf(i).empty()) continue;
    const auto newest =
        std::max_element(DiskOf(i).begin(), DiskOf(i).end(),
                         [](const auto& a, const auto& b) { return a.position < b.position; });
    member(i).state = *newest;
    member(i).carries = true;
  }
}

/// Of the member's folder: its ledger and its checkpoints.
uint64_t RunSimulation::HighestIn(int i) {
  const SimulatedLedger& ledger = LedgerOf(i);
  uint64_t highest = ledger.empty() ? 0 : ledger.rbegin()->first;
  for (const SimulatedState& state : DiskOf(i)) highest = std::max(highest, state.position.generation);
  return highest;
}

StatePlan RunSimulation::Meet(Lines& lines) {
  ranks_.clear();
  for (int i = 0; i < size(); ++i) {
    if (at(i).phase == Phase::kWaiting || at(i).phase == Phase::kDone) ranks_.push_back(i);
  }
  broken_ = false;
  std::map<int, Position> newest;  // of each run
  for (const int i : ranks_) {
    member(i).known = std::max(at(i).known, HighestIn(i));
    if (at(i).carries) newest[at(i).state.run] = std::max(newest[at(i).state.run], at(i).state.position);
  }
  StatePlan plan = Compare();
  Origin origin = OriginOf(plan, /*resume=*/true, /*looked=*/false);
  if (origin == Origin::kCheckpoint) {
    LoadNewest();
    plan = Compare();
    origin = OriginOf(plan, /*resume=*/true, /*looked=*/true);
    if (origin == Origin::kMembers) lines.push_back("the state is a checkpoint's");
  }
  if (origin == Origin::kFresh) {
    plan = FreshPlan(plan, static_cast<int>(ranks_.size()));
    member(ranks_.front()).state = {.run = ++runs_, .position = {}, .lineage = {}};
    for (const int i : ranks_) {  // what another run left moves aside
      DiskOf(i).clear();
      LedgerOf(i).clear();
    }
    lines.push_back("the run begins");
  }
  const SimulatedState& from = at(ranks_[static_cast<size_t>(plan.source)]).state;
  Expect(plan.generation > newest[from.run].generation, "generations only grow");
  Expect(from.position >= newest[from.run], "positions never go back");
  for (const int i : ranks_) member(i).known = plan.generation;
  return plan;
}

Lines RunSimulation::Form(int joins) {
  Gather(joins);
  Lines lines;
  const StatePlan plan = Meet(lines);
  generation_ = plan.generation;
  ++memberships_;
  const int source = ranks_[static_cast<size_t>(plan.source)];
  for (const int rank : plan.receive) {
    SimulatedMember& m = member(ranks_[static_cast<size_t>(rank)]);
    m.state = at(source).state;
    m.finished = at(source).finished;
  }
  for (const int i : ranks_) {
    member(i).carries = true;
    member(i).phase = Phase::kRunning;
    member(i).wants_to_leave = false;
  }
  lines.push_back(absl::StrCat("generation ", generation_, ": ", ranks_.size(), " from ", Name(source),
                               " at ", ToText(at(source).state)));
  TakeRoles(plan, lines);
  CheckStates();
  return lines;
}

Lines RunSimulation::FormBroken(int joins, int dies) {
  Gather(joins);
  Lines lines;
  const StatePlan plan = Meet(lines);
  for (const int i : ranks_) member(i).phase = Phase::kWaiting;
  member(ranks_[static_cast<size_t>(plan.source)]).carries = true;
  ranks_.clear();
  lines.push_back("the states are not handed over");
  for (const std::string& line : Die(dies)) lines.push_back(line);
  return lines;
}

void RunSimulation::TakeRoles(const StatePlan& plan, Lines& lines) {
  int writers = 0;
  std::set<int> saving_disks;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int i = ranks_[rank];
    const bool first_on_node = own_folders_ || rank == 0;
    const FileRole role =
        RoleOf(static_cast<int>(rank), plan.writer, first_on_node, /*sees_mark=*/!own_folders_);
    if (role == FileRole::kWriter) {
      ++writers;
      writer_ = i;
      lines.push_back(absl::StrCat(Name(i), " writes the run's files"));
    }
    if (role == FileRole::kCopies) lines.push_back(absl::StrCat(Name(i), " saves copies"));
    if (role != FileRole::kNone) saving_disks.insert(own_folders_ ? i : 0);
    member(i).life.Enter(static_cast<int>(ranks_.size()), /*elastic=*/true, role != FileRole::kNone,
                         at(i).finished);
  }
  Expect(writers == 1, "one writer a generation");
  Expect(saving_disks.size() == (own_folders_ ? ranks_.size() : 1), "checkpoints on every disk");
}

}  // namespace mtrun::trainers
