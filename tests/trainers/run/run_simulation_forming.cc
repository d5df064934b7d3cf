// How the members of a simulated run form a generation: members, source and writer.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
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

/// `looked`: the members have read the states on their disks.
StatePlan RunSimulation::Compare(bool looked) const {
  std::vector<Claim> claims;
  for (const int i : ranks_) {
    const SimulatedMember& m = at(i);
    Claim claim{.known = m.known};
    if (m.carries) {
      claim = {.run = static_cast<uint64_t>(m.state.run),
               .position = m.state.position,
               .digest = 1,
               .known = m.known};
      // A random number that is the same in every repetition of this course.
      if (m.may_be_behind && DiskOf(i).of_several_nodes)
        claim.gap = SplitMix64(static_cast<uint64_t>(memberships_)) >> 32;
    }
    const SimulatedState* newest = DiskOf(i).Newest();
    const bool reads = own_folders_ || i == ranks_.front();
    if (newest != nullptr && reads && !looked && !goes_back_)
      claim.saved = {static_cast<uint64_t>(newest->run), newest->position};
    claims.push_back(claim);
  }
  return checkpoints::DecideSource(claims, 1);  // a new service each time, counting from 1
}

/// One member per node reads; with a shared disk it is the first member.
void RunSimulation::LoadNewest(const StatePlan& plan) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int i = ranks_[rank];
    const bool first_on_node = own_folders_ || rank == 0;
    const SimulatedState* newest = DiskOf(i).Newest();
    if (newest == nullptr || !ReadsCheckpoint(plan, static_cast<int>(rank), first_on_node, /*wanted=*/true))
      continue;
    SimulatedMember& m = member(i);
    m.state = *newest;
    m.carries = m.may_be_behind = true;
    m.finished = false;
    m.remembered =
        std::max<int64_t>(0, m.state.position.steps - 1);  // a state has the record of its last step
  }
}

/// Returns the highest generation in the member's folder, in its ledger or its checkpoints.
uint64_t RunSimulation::HighestIn(int i) const {
  uint64_t highest = 0;
  for (const SimulatedLine& line : DiskOf(i).ledger) highest = std::max(highest, line.generation);
  for (const SimulatedState& state : DiskOf(i).steps) highest = std::max(highest, state.position.generation);
  return highest;
}

void RunSimulation::BeginRun() {
  member(ranks_.front()).state = {.run = ++runs_, .position = {}, .history = {}};
}

StatePlan RunSimulation::Meet(Lines& lines) {
  ranks_.clear();
  for (int i = 0; i < size(); ++i) {
    if (at(i).phase == Phase::kWaiting || at(i).phase == Phase::kDone) ranks_.push_back(i);
  }
  broken_ = false;
  std::map<int, Position> newest;  // the newest position of each run, in a member's memory or on its disk
  for (const int i : ranks_) {
    member(i).known = std::max(at(i).known, HighestIn(i));
    if (at(i).carries) newest[at(i).state.run] = std::max(newest[at(i).state.run], at(i).state.position);
    for (const SimulatedState& state : DiskOf(i).steps)
      newest[state.run] = std::max(newest[state.run], state.position);
  }
  StatePlan plan = Compare(/*looked=*/false);
  Origin origin = OriginOf(plan, /*resume=*/true, /*looked=*/false);
  if (origin == Origin::kCheckpoint) {
    LoadNewest(plan);
    plan = Compare(/*looked=*/true);
    origin = OriginOf(plan, /*resume=*/true, /*looked=*/true);
    if (origin == Origin::kMembers) lines.push_back("the state is a checkpoint's");
  }
  if (origin == Origin::kFresh) {
    plan = FreshPlan(plan, static_cast<int>(ranks_.size()));
    BeginRun();
    lines.push_back("the run begins");
  }
  const SimulatedState& from = at(ranks_[static_cast<size_t>(plan.source)]).state;
  Expect(plan.generation > newest[from.run].generation, "generations only grow");
  Expect(from.position >= newest[from.run], "positions never go back");
  for (const int i : ranks_) {
    member(i).known = plan.generation;
    DiskOf(i).of_several_nodes = DiskOf(i).of_several_nodes || ranks_.size() > 1;
  }
  return plan;
}

/// Hands the folders to the run; the writer opens the ledger.
void RunSimulation::EnterFiles(const StatePlan& plan) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const int i = ranks_[rank];
    SimulatedDisk& disk = DiskOf(i);
    if (at(i).writing && at(i).writing->run != at(i).state.run)
      Write(i);  // before its folder is handed to another run
    disk.GiveTo(at(i).state.run);
    const bool writes = static_cast<int>(rank) == plan.writer;
    if (writes) disk.BeginLedger(at(i).state, at(i).remembered, generation_);
  }
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
    m.remembered =
        std::max<int64_t>(0, m.state.position.steps - 1);  // a state has the record of its last step
  }
  for (const int i : ranks_) {
    member(i).carries = true;
    member(i).may_be_behind = false;
    member(i).phase = Phase::kRunning;
    member(i).wants_to_leave = false;
  }
  lines.push_back(absl::StrCat("generation ", generation_, ": ", ranks_.size(), " from ", Name(source),
                               " at ", ToText(at(source).state)));
  TakeRoles(plan, lines);
  EnterFiles(plan);
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
