// A simulated run of a few members, without time, threads, tensors or files. Members decide through Lifecycle
// and DecideSource, as real ones do. The caller chooses the events: votes, deaths at any moment, joins,
// members that are away for longer than a lease, slow disks, disks that are older or newer than memory, cold
// starts in any order. It is a value, so that explorers can keep it and continue from it.
// Methods of type Lines return what happened, one line per event.
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
#include "trainers/run/rules/lifecycle.h"

namespace mtrun::trainers {

struct SimulatedMember {
  enum class Phase {
    kWaiting,   // waits for a generation
    kRunning,   // about to decide
    kTogether,  // waits for the others at `decision`
    kDone,      // reported that it is done, and stays until the job ends
    kAway,      // frozen or disconnected, with its state: others continue without it
    kLeft,
    kDead,
  };
  explicit SimulatedMember(const RunRules& rules) : life(rules, TimePoint()) {}

  Phase phase = Phase::kWaiting;
  bool carries = false;  // has a state
  bool finished = false;
  SimulatedState state;
  uint64_t known = 0;          // the highest generation that it was in, or that its folder records
  bool may_be_behind = false;  // others may have continued its state unseen
  int64_t remembered = 0;      // it has the records of the steps from this number on
  Lifecycle life;
  Decision decision;
  bool wants_to_leave = false;
  std::optional<SimulatedState> writing;  // handed to the writing thread, not yet on the disk
  auto operator<=>(const SimulatedMember&) const = default;
};

/// Returns "a", "b", ...
std::string Name(int member);
class RunSimulation {
 public:
  using Lines = std::vector<std::string>;
  using Phase = SimulatedMember::Phase;

  struct Votes {
    std::set<int> leave;   // members
    bool regroup = false;  // a member knows of a coming generation
  };

  /// `own_folders`: each member is a node with a disk of its own; otherwise all share one. `goes_back`: uses
  /// the former rules, which compare only live states and let a save delete checkpoints that are ahead.
  RunSimulation(const RunRules& rules, int members, bool own_folders, bool goes_back = false);

  // ---- possible events; Can* returns whether the event is possible
  bool CanDecide(int member) const { return at(member).phase == Phase::kRunning; }
  /// Lets the member decide once. `knows`: whether it has learned that the generation is broken, if it is.
  Lines Decide(int member, bool knows);
  /// Returns whether all members wait at the same decision.
  bool CanComplete() const;
  Lines Complete(const Votes& votes);
  bool CanDie(int member) const;
  Lines Die(int member);
  /// Completes the collective while a member dies: those in `done` have its result, the others do not.
  Lines CompleteBroken(int dies, const std::set<int>& done, const Votes& votes);
  /// Likewise, but no member dies: one is away from then on, with the result or without it.
  Lines CompleteParted(int goes, const std::set<int>& done, const Votes& votes);
  bool CanGoAway(int member) const {
    const Phase phase = at(member).phase;
    return phase == Phase::kWaiting || phase == Phase::kRunning || phase == Phase::kTogether;
  }
  Lines GoAway(int member);
  bool CanComeBack(int member) const { return at(member).phase == Phase::kAway; }
  Lines ComeBack(int member);
  /// Makes the collective of a broken generation fail.
  bool CanBreak(int member) const { return broken_ && at(member).phase == Phase::kTogether; }
  Lines Break(int member);
  /// A member that is away cannot write: its lease ends before others form a generation.
  bool CanWrite(int member) const {
    return at(member).phase != Phase::kDead && at(member).phase != Phase::kAway &&
           at(member).writing.has_value();
  }
  Lines Write(int member);
  /// Starts a process on the node of a dead member, with that node's disk.
  bool CanRevive(int member) const { return at(member).phase == Phase::kDead; }
  Lines Revive(int member);
  /// Forms a generation of all waiting and done members and of `joins` new ones.
  bool CanForm(int joins) const;
  Lines Form(int joins);
  /// Likewise, but a member dies during the handover: intended receivers keep their previous state.
  Lines FormBroken(int joins, int dies);

  /// Returns whether no member can act any more without a new member.
  bool Over() const;
  int size() const { return static_cast<int>(members_.size()); }
  const SimulatedMember& at(int member) const { return members_[static_cast<size_t>(member)]; }
  bool broken() const { return broken_; }
  int results() const { return results_; }
  const std::vector<SimulatedDisk>& disks() const { return disks_; }

  /// Returns "" while all properties hold, or the first one that was violated. The same position means the
  /// same history. Steps are applied once and in order. There is one writer a generation. All members decide
  /// alike after a step. The run continues from the highest position that a member holds or can read. The
  /// furthest checkpoint of a disk is never lost, and only ancestors are deleted. A member is done only if
  /// results and last checkpoint are on a disk and the ledgers prove each step once.
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
  int memberships_ = 0;  // number of memberships formed
  int writer_ = -1;      // member
  bool broken_ = false;  // a member of the generation is gone
  int results_ = 0;      // how often results were written
  int runs_ = 0;         // number of runs started
  std::string offence_;
};

}  // namespace mtrun::trainers
