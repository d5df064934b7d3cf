// The run state that one member holds: its lineage, its position, the tensors, the progress. Lost with the
// process, handed over when a generation begins, saved in checkpoints. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/sampler.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/lineage.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/membership/membership.h"
#include "trainers/run/identity.h"
#include "trainers/run/run_progress.h"
#include "trainers/run/snapshot.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

class RunReplica {
 public:
  /// `state` holds the tensors and must outlive this. `identity`: what must be the same when a run continues.
  RunReplica(RunIdentity identity, TrainState& state);

  /// True once the run has begun here or has been taken over.
  bool exists() const { return run_ != 0; }
  uint64_t run() const { return run_; }
  /// Of the steps that are being made: grows with each membership of the run, over restarts too.
  uint64_t generation() const { return generation_; }
  const checkpoints::Position& position() const { return position_; }
  const checkpoints::Lineage& lineage() const { return lineage_; }
  RunProgress& progress() { return progress_; }
  const RunProgress& progress() const { return progress_; }

  /// One more step is finished (or its evaluation).
  void FinishStep() {
    checkpoints::Extend(lineage_, generation_, position_.steps);
    position_ = {generation_, position_.steps + 1, false};
  }
  void FinishEvaluation() { position_.evaluated = true; }

  struct Begun {
    bool fresh = false;     // the run begins now
    bool received = false;  // this member took another one's state over
    bool held = false;      // this member held a state of a run before
    int writer = 0;         // rank that writes the run's files
    std::string resumed;    // the checkpoint that it continues from, "" where a member held the state
  };
  /// Collective, first thing in a generation: the member that is furthest gives its state to those behind. If
  /// the newest intact checkpoint in `folder` of any node lies further in the same run, or no member holds
  /// the run, that checkpoint is the source; else the run begins. Without `resume` a checkpoint counts for a
  /// job that holds nothing only if the folder's run is of the job of `agent` (fresh_start.h).
  ///
  /// kFailedPrecondition: the checkpoint is of another run, the message lists what differs. kUnavailable: the
  /// group broke; a member that was about to receive holds what it held before. IsRivalry(): two members hold
  /// different states of the highest position.
  absl::StatusOr<Begun> Enter(Membership& membership, const std::string& folder, bool resume,
                              const std::string& agent = "");

  /// A copy of everything, for a checkpoint.
  absl::StatusOr<checkpoints::Snapshot> TakeSnapshot();

 private:
  /// What its node's folder tells of the run.
  struct FolderView {
    uint64_t known = 0;                     // the highest generation of a step or a checkpoint
    checkpoints::SavedPosition saved = {};  // the checkpoint of the highest position
  };
  static FolderView LookInto(const std::string& folder);

  checkpoints::Claim MyClaim(bool alone, const std::string& folder) const;
  NamedTensors Tensors() const;
  std::string EncodeState() const;
  absl::Status AdoptState(std::string_view text);
  absl::StatusOr<checkpoints::StatePlan> Agree(const Membership& membership, const std::string& folder,
                                               const checkpoints::SavedPosition& saved) const;
  /// Whether this node's checkpoints count for a job that holds nothing, and whether any node's do.
  absl::StatusOr<std::pair<bool, bool>> WantsCheckpoints(const Membership& membership,
                                                         const std::string& folder,
                                                         const std::string& agent) const;
  absl::Status Receive(Membership& membership, const checkpoints::StatePlan& plan, bool receives);
  /// One reader of each node takes over the newest checkpoint of its folder, if that `reads`; a state that is
  /// held gives way only to a checkpoint `above` it.
  absl::StatusOr<std::string> LoadNewestOfNode(Membership& membership, const std::string& folder, bool reads,
                                               const std::optional<checkpoints::Position>& above);
  /// Takes over the newest intact checkpoint; its path, "" if there is none.
  absl::StatusOr<std::string> LoadNewest(const std::string& folder);
  /// The same in place of the state that this member holds, which stays if that fails.
  absl::StatusOr<std::string> LoadAbove(const std::string& folder, const checkpoints::Position& above);
  absl::Status Adopt(const checkpoints::Checkpoint& checkpoint);

  const RunIdentity identity_;
  TrainState& state_;
  SnapshotMemory memory_;

  uint64_t run_ = 0;
  uint64_t generation_ = 1;
  uint64_t known_generation_ = 0;  // the highest: of a membership, or that the folder tells of
  checkpoints::Position position_;
  checkpoints::Lineage lineage_;
  RunProgress progress_;
  std::string resumed_;  // the checkpoint that it was read from; "" once a generation has begun with it
  bool may_be_behind_ = false;  // others may have continued its state unseen, until a generation has begun
  checkpoints::SavedPosition unreadable_;  // lies further than the state that it held, and was not intact
};

/// Of the newest checkpoint in `folder`; nothing where there is none. Both read its state alone.
std::optional<checkpoints::Identity> IdentityOfNewest(const std::string& folder);
std::optional<datasets::BatchPlan> BatchOfNewest(const std::string& folder);

}  // namespace mtrun::trainers
