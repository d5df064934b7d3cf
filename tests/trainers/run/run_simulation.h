// A run of a few members without time, threads, tensors or files: they decide through Lifecycle and
// DecideSource as the real ones do, and the caller chooses what happens: votes, deaths at any moment, joins,
// members that are away for a time, slow disks. A value, so that explorers can keep it and go on from it.
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

#include "trainers/run/lifecycle.h"

namespace mtrun::trainers {

/// Which step was applied in which generation: a member's weights, as far as a run is concerned.
using Lineage = std::vector<std::pair<int64_t, uint64_t>>;

/// Whose lines a folder's ledger has: generation -> the number of its membership.
using SimulatedLedger = std::map<uint64_t, int>;

struct SimulatedState {
  int run = 0;  // which one: a run that cannot be continued is followed by another
  checkpoints::Position position;
  Lineage lineage;
  auto operator<=>(const SimulatedState&) const = default;
};

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
  uint64_t known = 0;  // the highest generation that it was in, or that its folder tells of
  Lifecycle life;
  Decision decision;
  bool wants_to_leave = false;
  std::optional<SimulatedState> writing;  // handed to the thread that writes, not on the disk yet
  auto operator<=>(const SimulatedMember&) const = default;
};

/// "a", "b" ...
std::string Name(int member);
/// "step 2 (generation 1) evaluated".
std::string ToText(const SimulatedState& state);

class RunSimulation {
 public:
  using Lines = std::vector<std::string>;
  using Phase = SimulatedMember::Phase;

  struct Votes {
    std::set<int> leave;   // members
    bool regroup = false;  // one knows of a generation to come
  };

  /// `own_folders`: each member is a node with a disk of its own; otherwise all share one.
  RunSimulation(const RunRules& rules, int members, bool own_folders);

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
  const std::vector<std::set<SimulatedState>>& disks() const { return disks_; }

  /// "" while all properties hold: the same position means the same lineage, steps are applied once and in
  /// order, one writer a generation, in no ledger lines of two memberships under one generation, all members
  /// decide alike after a step, positions never go back, and nobody is done before results and last
  /// checkpoint are on a disk.
  const std::string& offence() const { return offence_; }
  auto operator<=>(const RunSimulation&) const = default;
  Lines Describe() const;

 private:
  SimulatedMember& member(int i) { return members_[static_cast<size_t>(i)]; }
  std::set<SimulatedState>& DiskOf(int member);
  const std::set<SimulatedState>& DiskOf(int member) const;
  bool IsOnDisk(int member, int64_t steps) const;
  SimulatedLedger& LedgerOf(int member) { return ledgers_[own_folders_ ? static_cast<size_t>(member) : 0]; }
  uint64_t HighestIn(int member);
  void Record(int member);
  Lines Finish(int member, const Votes& votes);
  checkpoints::StatePlan Meet(Lines& lines);
  checkpoints::StatePlan Compare() const;
  void LoadNewest();
  void TakeRoles(const checkpoints::StatePlan& plan, Lines& lines);
  void Gather(int joins);
  void CheckStates();
  void CheckDone(int member);
  void Expect(bool holds, const std::string& property);

  RunRules rules_;
  bool own_folders_ = false;
  std::vector<SimulatedMember> members_;
  std::vector<std::set<SimulatedState>> disks_;
  std::vector<SimulatedLedger> ledgers_;  // one a disk
  std::vector<int> ranks_;                // members of the running generation
  uint64_t generation_ = 0;
  int memberships_ = 0;  // that were formed
  int writer_ = -1;      // member
  bool broken_ = false;  // a member of the generation is gone
  int results_ = 0;      // times that they were written
  int runs_ = 0;         // that have begun
  std::string offence_;
};

}  // namespace mtrun::trainers
