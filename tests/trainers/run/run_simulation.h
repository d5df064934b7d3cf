// A run of a few members without time, threads, tensors or files: they decide through Lifecycle and
// DecideSource as the real ones do, and the caller chooses what happens: votes, deaths at any moment, joins,
// members that are away for longer than a lease, slow disks, disks that are older or newer than memory, cold
// starts in any order. A value, so that explorers can keep it and go on from it.
// Methods that tell return what happened, a line each.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainers/run/simulated_disk.h"
#include "trainers/run/lifecycle.h"

namespace mtrun::trainers {

struct SimulatedMember {
  enum class Phase {
    kWaiting,   // for a generation
    kRunning,   // about to decide
    kTogether,  // waits for the others at `decision`
    kDone,      // said so, and stays until the job ends
    kAway,      // frozen or cut off, with its state: others go on without it
    kLeft,
    kDead,
  };
  explicit SimulatedMember(const RunRules& rules) : life(rules, TimePoint()) {}

  Phase phase = Phase::kWaiting;
  bool carries = false;  // a state
  bool finished = false;
  SimulatedState state;
  uint64_t known = 0;          // the highest generation that it was in, or that its folder tells of
  bool may_be_behind = false;  // others may have continued its state unseen
  int64_t remembered = 0;      // it knows the records of the steps from this number on
  Lifecycle life;
  Decision decision;
  bool wants_to_leave = false;
  std::optional<SimulatedState> writing;  // handed to the thread that writes, not on the disk yet
  auto operator<=>(const SimulatedMember&) const = default;
};

/// "a", "b" ...
std::string Name(int member);
class RunSimulation {
 public:
  using Lines = std::vector<std::string>;
  using Phase = SimulatedMember::Phase;

  struct Votes {
    std::set<int> leave;   // members
    bool regroup = false;  // one knows of a generation to come
  };

  /// `own_folders`: each member is a node with a disk of its own; otherwise all share one. `goes_back`: the
  /// rules of before, by which live states alone are compared and a save deletes what lies further.
  RunSimulation(const RunRules& rules, int members, bool own_folders, bool goes_back = false);

  // ---- what may happen; Can* says whether it may
  bool CanDecide(int member) const { return at(member).phase == Phase::kRunning; }
  /// The member decides once. `knows`: where the generation is broken, that it has heard so.
  Lines Decide(int member, bool knows);
  /// All members wait at the same decision.
  bool CanComplete() const;
  Lines Complete(const Votes& votes);
  bool CanDie(int member) const;
  Lines Die(int member);
  /// A member dies in the middle of what CanComplete: those in `done` have its result, the others do not.
  Lines CompleteBroken(int dies, const std::set<int>& done, const Votes& votes);
  /// The same, but nobody dies: one is away from then on, with its result or without.
  Lines CompleteParted(int goes, const std::set<int>& done, const Votes& votes);
  bool CanGoAway(int member) const {
    const Phase phase = at(member).phase;
    return phase == Phase::kWaiting || phase == Phase::kRunning || phase == Phase::kTogether;
  }
  Lines GoAway(int member);
  bool CanComeBack(int member) const { return at(member).phase == Phase::kAway; }
  Lines ComeBack(int member);
  /// The collective of a broken generation fails.
  bool CanBreak(int member) const { return broken_ && at(member).phase == Phase::kTogether; }
  Lines Break(int member);
  /// Not of one that is away: its lease has ended before others have formed a generation.
  bool CanWrite(int member) const {
    return at(member).phase != Phase::kDead && at(member).phase != Phase::kAway &&
           at(member).writing.has_value();
  }
  Lines Write(int member);
  /// A process is started on the node of a dead member, with that node's disk.
  bool CanRevive(int member) const { return at(member).phase == Phase::kDead; }
  Lines Revive(int member);
  /// A generation of everybody who waits, of who is done, and of `joins` new members.
  bool CanForm(int joins) const;
  Lines Form(int joins);
  /// The same, but a member dies while the states are handed over: who was to receive holds what it did.
  Lines FormBroken(int joins, int dies);

  /// Nobody can do anything any more without a new member.
  bool Over() const;
  int size() const { return static_cast<int>(members_.size()); }
  const SimulatedMember& at(int member) const { return members_[static_cast<size_t>(member)]; }
  bool broken() const { return broken_; }
  int results() const { return results_; }
  const std::vector<SimulatedDisk>& disks() const { return disks_; }

  /// "" while all properties hold: the same position means the same history, steps are applied once and in
  /// order, one writer a generation, all members decide alike after a step, the run continues from the
  /// highest position that a member holds or can read, the furthest checkpoint of a disk is never lost, what
  /// is deleted is an ancestor, and no member is done before results and last checkpoint are on a disk and
  /// the ledgers prove each step once.
  const std::string& offence() const { return offence_; }
  auto operator<=>(const RunSimulation&) const = default;
  Lines Describe() const;

 private:
  SimulatedMember& member(int i) { return members_[static_cast<size_t>(i)]; }
  SimulatedDisk& DiskOf(int member) { return disks_[own_folders_ ? static_cast<size_t>(member) : 0]; }
  const SimulatedDisk& DiskOf(int member) const {
    return disks_[own_folders_ ? static_cast<size_t>(member) : 0];
  }
  uint64_t HighestIn(int member) const;
  Lines Finish(int member, const Votes& votes);
  checkpoints::StatePlan Meet(Lines& lines);
  checkpoints::StatePlan Compare(bool looked) const;
  void LoadNewest(const checkpoints::StatePlan& plan);
  void BeginRun();
  void TakeRoles(const checkpoints::StatePlan& plan, Lines& lines);
  void EnterFiles(const checkpoints::StatePlan& plan);
  void Gather(int joins);
  void CheckStates();
  void CheckSaved(int disk, const SimulatedDisk& before, const SimulatedState& saved);
  void CheckDone(int member);
  void Expect(bool holds, const std::string& property);

  RunRules rules_;
  bool own_folders_ = false;
  bool goes_back_ = false;
  std::vector<SimulatedMember> members_;
  std::vector<SimulatedDisk> disks_;
  std::vector<int> ranks_;  // members of the running generation
  uint64_t generation_ = 0;
  int memberships_ = 0;  // that were formed
  int writer_ = -1;      // member
  bool broken_ = false;  // a member of the generation is gone
  int results_ = 0;      // times that they were written
  int runs_ = 0;         // that have begun
  std::string offence_;
};

}  // namespace mtrun::trainers
