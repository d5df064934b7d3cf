// The beginning of a generation: from its assignment until this member holds the run's state and its files
// are open. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/membership/assignment.h"
#include "trainers/run/loop/run_member.h"

namespace mtrun::trainers {

/// Takes this member into one generation after the other.
class GenerationEntry {
 public:
  explicit GenerationEntry(RunMember& run) : run_(run) {}

  /// Records that the last generation ended at `now`, and why.
  void NoteEnd(std::string why, TimePoint now);

  /// Enters the generation of the membership's assignment. Collective, first call in a generation. On return
  /// 1. all members agree on everything that must be equal, and hold the same state of the run: the furthest
  ///    that a member or a node's folder had;
  /// 2. the writer has recorded the generation, and each member has its role for the run's files;
  /// 3. the lifecycle is that of the generation, and the user has been told how the run begins or continues.
  ///
  /// Returns the errors of RunReplica::Enter, and kFailedPrecondition if the members differ. If this member
  /// holds a state, that is kUnavailable: only the joining worker is rejected, and the others continue.
  absl::StatusOr<RunReplica::Begun> Enter();

  /// Records the durations of the regrouping, if there was one, after the first step of a generation that
  /// began its steps at `began`.
  absl::Status RecordRegroup(TimePoint began);

 private:
  absl::StatusOr<Machines> CheckMembersAgree() const;
  absl::Status SettleMachines(const Machines& machines);
  bool RequiresOneKind() const;
  absl::Status EnterFiles(const RunReplica::Begun& begun);
  void Announce(const RunReplica::Begun& begun) const;

  RunMember& run_;
  std::string why_;                 // the last generation ended
  std::optional<TimePoint> broke_;  // end of the last generation; unset after the first step of the next one
};

/// Returns whether the worker prints how the run goes on: rank 0, and on a `terminal` the first worker of each
/// node, since each terminal has a reader.
bool ShowsProgress(const Assignment& who, bool terminal);

/// Returns the line that tells a user how a run continues on this node; "" if it begins, or if the launcher
/// tells it (`launcher_tells`).
std::string ContinuationText(const RunReplica::Begun& begun, const Assignment& who, int64_t steps,
                             bool launcher_tells);

}  // namespace mtrun::trainers
