#include "tests/trainers/run/run_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

using checkpoints::Position;
using Lines = RunSimulation::Lines;
using Phase = SimulatedMember::Phase;

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
      return "waits";
    case Phase::kRunning:
      return "runs";
    case Phase::kTogether:
      return "waits for the others";
    case Phase::kDone:
      return "done";
    case Phase::kAway:
      return "away";
    case Phase::kLeft:
      return "left";
    case Phase::kDead:
      return "dead";
  }
  return "";
}

}  // namespace

std::string Name(int member) { return std::string(1, static_cast<char>('a' + member)); }

RunSimulation::RunSimulation(const RunRules& rules, int members, bool own_folders, bool goes_back)
    : rules_(rules), own_folders_(own_folders), goes_back_(goes_back), disks_(own_folders ? 0 : 1) {
  Gather(members);
}

void RunSimulation::Gather(int joins) {
  for (SimulatedMember& m : members_) {
    if (joins == 0 || m.phase != Phase::kDead) continue;
    m.phase = Phase::kWaiting;  // on a dead member's node, with its disk
    --joins;
  }
  for (int i = 0; i < joins; ++i) {
    members_.emplace_back(rules_);
    if (own_folders_) disks_.emplace_back();
  }
}

Lines RunSimulation::Revive(int i) {
  member(i).phase = Phase::kWaiting;
  return {absl::StrCat(Name(i), " is started again")};
}

Lines RunSimulation::Decide(int i, bool knows) {
  SimulatedMember& m = member(i);
  m.decision = m.life.Next(m.state.position, broken_ && knows, TimePoint());
  const bool goes = m.decision.action == Action::kLeave || m.decision.action == Action::kSave;
  Expect(goes || !m.wants_to_leave, "who voted to leave goes after that step");
  const Lines lines = {absl::StrCat(Name(i), ": ", trainers::Describe(m.decision, m.life, m.state.position))};
  switch (m.decision.action) {
    case Action::kSave:
      m.life.Saved(m.state.position, TimePoint());
      m.writing = m.state;
      break;
    case Action::kRegroup:
      m.phase = Phase::kWaiting;
      broken_ = true;
      break;
    case Action::kFinish:
      if (m.writing) Write(i);
      if (i == writer_ && !m.finished) ++results_;
      m.phase = Phase::kTogether;
      break;
    case Action::kLeave:
      if (m.writing) Write(i);
      m.phase = m.decision.cause == Decision::Cause::kAllLeave ? Phase::kTogether : Phase::kLeft;
      broken_ = broken_ || m.phase == Phase::kLeft;
      break;
    case Action::kStep:
    case Action::kEvaluate:
      m.phase = Phase::kTogether;
      break;
  }
  return lines;
}

bool RunSimulation::CanComplete() const {
  if (broken_ || ranks_.empty()) return false;
  return std::all_of(ranks_.begin(), ranks_.end(), [&](int i) { return at(i).phase == Phase::kTogether; });
}

Lines RunSimulation::Finish(int i, const Votes& votes) {
  SimulatedMember& m = member(i);
  switch (m.decision.action) {
    case Action::kStep: {
      const int leaving = static_cast<int>(std::count_if(
          ranks_.begin(), ranks_.end(), [&](int other) { return votes.leave.contains(other); }));
      if (i == writer_) {
        DiskOf(i).ledger.push_back({.run = m.state.run,
                                    .step = m.state.position.steps,
                                    .generation = generation_,
                                    .membership = memberships_});
      }
      m.state.history.emplace_back(generation_, memberships_);
      m.state.position = {generation_, m.state.position.steps + 1, false};
      m.wants_to_leave = votes.leave.contains(i);
      m.life.Stepped({leaving, votes.regroup ? 1 : 0}, m.wants_to_leave);
      m.phase = Phase::kRunning;
      return {};
    }
    case Action::kEvaluate:
      m.state.position.evaluated = true;
      m.life.Evaluated();
      m.phase = Phase::kRunning;
      return {};
    case Action::kFinish:
      m.finished = true;
      m.phase = Phase::kDone;
      CheckDone(i);
      return {absl::StrCat(Name(i), " is done")};
    default:
      m.phase = Phase::kLeft;
      Expect(DiskOf(writer_).HasStep(m.state.position.steps), "a run that stops is on the disk");
      return {absl::StrCat(Name(i), " has left")};
  }
}

Lines RunSimulation::Complete(const Votes& votes) {
  for (const int i : ranks_)
    Expect(at(i).decision.action == at(ranks_.front()).decision.action, "all members decide alike");
  Lines lines;
  for (const int i : ranks_) {
    for (const std::string& line : Finish(i, votes)) lines.push_back(line);
  }
  CheckStates();
  return lines;
}

bool RunSimulation::CanDie(int i) const { return at(i).phase != Phase::kDead && at(i).phase != Phase::kLeft; }

Lines RunSimulation::Die(int i) {
  SimulatedMember& m = member(i);
  if (std::count(ranks_.begin(), ranks_.end(), i) != 0 && m.phase != Phase::kWaiting) broken_ = true;
  m = SimulatedMember(rules_);
  m.phase = Phase::kDead;
  return {absl::StrCat(Name(i), " dies")};
}

Lines RunSimulation::CompleteBroken(int dies, const std::set<int>& done, const Votes& votes) {
  Lines lines = Die(dies);
  for (const int i : done) {
    for (const std::string& line : Finish(i, votes)) lines.push_back(line);
  }
  CheckStates();
  return lines;
}

Lines RunSimulation::CompleteParted(int goes, const std::set<int>& done, const Votes& votes) {
  Lines lines;
  for (const int i : done) {
    for (const std::string& line : Finish(i, votes)) lines.push_back(line);
  }
  broken_ = true;
  if (CanGoAway(goes)) {  // otherwise its part has ended
    for (const std::string& line : GoAway(goes)) lines.push_back(line);
  }
  CheckStates();
  return lines;
}

Lines RunSimulation::GoAway(int i) {
  SimulatedMember& m = member(i);
  if (std::count(ranks_.begin(), ranks_.end(), i) != 0 && m.phase != Phase::kWaiting) broken_ = true;
  m.phase = Phase::kAway;
  m.writing.reset();  // no checkpoint gets its final name once the lease is over
  m.may_be_behind = m.carries;
  return {absl::StrCat(Name(i), " is away")};
}

Lines RunSimulation::ComeBack(int i) {
  member(i).phase = Phase::kWaiting;
  return {absl::StrCat(Name(i), " comes back")};
}

Lines RunSimulation::Break(int i) {
  member(i).phase = Phase::kWaiting;
  return {absl::StrCat(Name(i), ": its collective breaks")};
}

Lines RunSimulation::Write(int i) {
  SimulatedMember& m = member(i);
  const SimulatedDisk before = DiskOf(i);
  DiskOf(i).Save(*m.writing, /*keep_last=*/2, goes_back_);
  CheckSaved(own_folders_ ? i : 0, before, *m.writing);
  const Lines lines = {absl::StrCat(Name(i), "'s checkpoint of ", ToText(*m.writing), " is on the disk")};
  m.writing.reset();
  CheckStates();
  return lines;
}

/// Checks that a saved state is deleted only if the newly saved state descends from it.
void RunSimulation::CheckSaved(int disk, const SimulatedDisk& before, const SimulatedState& saved) {
  const SimulatedDisk& now = disks_[static_cast<size_t>(disk)];
  for (const auto* part : {&before.steps, &before.branches}) {
    for (const SimulatedState& state : *part) {
      Expect(now.Furthest(state.run) >= state.position.steps,
             "the furthest checkpoint of a disk is never lost");
      const bool kept = now.steps.contains(state) || now.branches.contains(state);
      Expect(kept || state.IsPrefixOf(saved), "what is deleted is an ancestor");
    }
  }
}

bool RunSimulation::Over() const {
  return std::all_of(members_.begin(), members_.end(), [](const SimulatedMember& m) {
    return m.phase == Phase::kDone || m.phase == Phase::kLeft || m.phase == Phase::kDead;
  });
}

void RunSimulation::CheckStates() {
  std::vector<const SimulatedState*> states;
  for (const SimulatedMember& m : members_) {
    if (m.carries) states.push_back(&m.state);
    if (m.writing) states.push_back(&*m.writing);
  }
  for (const SimulatedDisk& disk : disks_) {
    for (const auto* part : {&disk.steps, &disk.branches})
      for (const SimulatedState& state : *part) states.push_back(&state);
  }
  for (const SimulatedState* a : states) {
    Expect(static_cast<int64_t>(a->history.size()) == a->position.steps,
           "as many steps as the position says");
    for (const SimulatedState* b : states) {
      const bool same = a->run == b->run && a->position.generation == b->position.generation &&
                        a->position.steps == b->position.steps;
      Expect(!same || a->history == b->history, "the same position means the same history");
    }
  }
}

void RunSimulation::CheckDone(int i) {
  const SimulatedState& state = at(i).state;
  Expect(state.position.steps == rules_.steps && state.position.evaluated, "all steps and their evaluation");
  Expect(results_ > 0, "results are written before anybody is done");
  bool saved = false;
  for (int other = 0; other < size(); ++other) saved = saved || DiskOf(other).HasStep(rules_.steps);
  Expect(saved, "the last checkpoint is on a disk before anybody is done");
  const auto all = static_cast<size_t>(rules_.steps);
  Expect(StepsThatCount(disks_, state.run).size() == all,
         "the ledgers have a line that counts for each step");
  const std::map<int64_t, int> own = StepsThatCount(disks_, state.run, state.position.generation);
  Expect(own.size() == all, "the ledgers have a line for each step of the state");
  for (const auto& [step, membership] : own)
    Expect(state.history[static_cast<size_t>(step)].second == membership,
           "the lines that count made the state");
}

void RunSimulation::Expect(bool holds, const std::string& property) {
  if (!holds && offence_.empty()) offence_ = property;
}

Lines RunSimulation::Describe() const {
  Lines lines;
  for (int i = 0; i < size(); ++i) {
    const SimulatedMember& m = at(i);
    lines.push_back(absl::StrCat(Name(i), " ", NameOf(m.phase), m.carries ? " at " + ToText(m.state) : "",
                                 m.finished ? ", finished" : "",
                                 m.writing ? ", writing " + ToText(*m.writing) : "", "; ",
                                 m.life.Describe()));
  }
  for (size_t disk = 0; disk < disks_.size(); ++disk) {
    std::string text = absl::StrCat("disk ", own_folders_ ? Name(static_cast<int>(disk)) : "of all", ":");
    for (const SimulatedState& state : disks_[disk].steps) absl::StrAppend(&text, " [", ToText(state), "]");
    for (const SimulatedState& state : disks_[disk].branches)
      absl::StrAppend(&text, " [", ToText(state), ", a branch]");
    lines.push_back(text);
  }
  return lines;
}

}  // namespace mtrun::trainers
