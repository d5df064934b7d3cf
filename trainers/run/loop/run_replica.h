// The run state that one member holds: lineage, position, tensors and progress. It is lost with the process,
// handed over when a generation begins, and saved in checkpoints. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/order/sampler.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/lineage.h"
#include "trainers/membership/membership.h"
#include "trainers/run/files/snapshot.h"
#include "trainers/run/records/run_progress.h"
#include "trainers/run/rules/identity.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

class RunReplica {
 public:
  /// `state` holds the tensors and must outlive this. `identity` must be equal when a run continues from
  /// `folder`. `start`: when the program began.
  RunReplica(RunIdentity identity, TrainState& state, std::string folder, TimePoint start);

  /// Returns true once the run has begun here or has been taken over.
  bool exists() const { return run_ != 0; }
  uint64_t run() const { return run_; }
  /// Returns the current steps' generation. It grows with each membership of the run, over restarts too.
  uint64_t generation() const { return generation_; }
  const checkpoints::Position& position() const { return position_; }
  const checkpoints::Lineage& lineage() const { return lineage_; }
  RunProgress& progress() { return progress_; }
  const RunProgress& progress() const { return progress_; }
  /// Returns the seconds of the run, over all its processes.
  double seconds() const { return ToSeconds(MonotonicNow() - run_began_); }

  /// Records that one more step is finished.
  void FinishStep() {
    checkpoints::Extend(lineage_, generation_, position_.steps);
    position_ = {generation_, position_.steps + 1, false};
  }
  void FinishEvaluation() { position_.evaluated = true; }
  /// Computes with the threads that the run began with, because the bits of a sum over threads depend on
  /// their number. `given`: the user has set this worker's, which the run has from now on.
  void SettleThreads(bool given);

  struct Begun {
    bool fresh = false;     // the run begins now
    bool received = false;  // this member took over another member's state
    bool held = false;      // this member already held a run's state, from a generation that it was in
    int writer = 0;         // rank that writes the run's files
    std::string resumed;    // the checkpoint that it continues from; "" if a member held the state
  };
  /// Agrees on the run's state when a generation begins: the member that is furthest sends its state to those
  /// that lag. Collective. The source is the newest intact checkpoint in any node's folder if it is further
  /// in the same run, or if no member holds the run. If there is none, the run begins. Without `resume`, a
  /// checkpoint counts for a job that holds nothing only if the folder's run belongs to the job of `agent`
  /// (fresh_start.h).
  ///
  /// Returns kFailedPrecondition if the checkpoint is of another run, with the differences. Returns
  /// kUnavailable if the group broke; a member that was to receive keeps its state. IsRivalry(): two members
  /// hold different states of the highest position.
  absl::StatusOr<Begun> Enter(Membership& membership, bool resume, const std::string& agent = "");

  /// Copies everything, for a checkpoint.
  absl::StatusOr<checkpoints::Snapshot> TakeSnapshot();

 private:
  /// The run as this node's folder shows it.
  struct FolderView {
    uint64_t known = 0;                     // highest generation of a step or a checkpoint
    checkpoints::SavedPosition saved = {};  // the checkpoint of the highest position
  };
  FolderView LookIntoFolder() const;

  checkpoints::Claim MyClaim(bool alone) const;
  NamedTensors Tensors() const;
  std::string EncodeState() const;
  absl::Status AdoptState(std::string_view text);
  absl::StatusOr<checkpoints::StatePlan> Agree(const Membership& membership,
                                               const checkpoints::SavedPosition& saved) const;
  /// Whether this node's checkpoints count for a job that holds nothing, and whether any node's do.
  absl::StatusOr<std::pair<bool, bool>> WantsCheckpoints(const Membership& membership,
                                                         const std::string& agent) const;
  absl::Status Receive(Membership& membership, const checkpoints::StatePlan& plan, bool receives);
  /// Takes over the newest checkpoint of a node's folder on the one member of the node that `reads`.
  absl::StatusOr<std::string> LoadNewestOfNode(Membership& membership, bool reads,
                                               const std::optional<checkpoints::Position>& above);
  /// Takes over the newest intact checkpoint. Returns its path, or "" if there is none. If a member holds the
  /// run, only a checkpoint `above` its state counts, and this member keeps its own state if that fails.
  absl::StatusOr<std::string> LoadNewest(const std::optional<checkpoints::Position>& above);
  absl::Status Adopt(const checkpoints::Checkpoint& checkpoint);

  const RunIdentity identity_;
  TrainState& state_;
  const std::string folder_;
  const TimePoint start_;
  SnapshotMemory memory_;

  uint64_t run_ = 0;
  uint64_t generation_ = 1;
  uint64_t known_generation_ = 0;  // the highest, of a membership or in the folder
  checkpoints::Position position_;
  checkpoints::Lineage lineage_;
  RunProgress progress_;
  TimePoint run_began_;         // as if this process had run the whole run
  std::string resumed_;         // checkpoint that it was read from; "" once a generation has begun with it
  bool may_be_behind_ = false;  // others may have continued its state unseen, until a generation has begun
  checkpoints::SavedPosition unreadable_;  // further than the state that it held, but not intact
};

}  // namespace mtrun::trainers
