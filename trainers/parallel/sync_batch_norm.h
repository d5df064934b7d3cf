// Batch normalisation over groups of G consecutive micro-batches of a step (--sync_bn). The grouping is by
// micro-batch number, so a step comes to the same at any number of workers. Each layer makes one small
// all-reduce forward and one backward, of every worker. Not thread-safe.
//
// What the step has to do. All workers make the same number of passes ("rounds", PlanSyncRounds). In each one
// a worker concatenates the samples of its round's micro-batches into one batch, calls
// SyncBatchNorm::SetRound, runs forward and backward once with the loss weighted by its samples / N, and only
// then continues. A worker without micro-batches in a round does the same with an empty batch ([0, 3, S, S])
// and 0 * logits.sum() as its loss: so every worker makes the same sequence of collective calls, those of the
// gradient buckets included, if LastRound() precedes the backward pass of the plan's last round on every
// member.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainers/collectives/cpu_group.h"
#include "trainers/models/batch_norm.h"
#include "trainers/parallel/partition.h"

namespace mtrun::trainers {

/// One pass of one worker.
struct SyncRound {
  MicroBatchRange micro_batches;  // of one group; empty: the worker takes part in the collectives only
  std::vector<int>
      members;  // ranks that have micro-batches of that group, in order; empty with `micro_batches`
  bool operator==(const SyncRound&) const = default;
};

/// The passes of worker `rank` of `world_size`: `micro_batches` is V, of which the first `filled` have
/// samples in this step; groups are of `group_micro_batches` micro-batches, the last one possibly of fewer.
/// Every rank gets the same number of rounds, as few as there can be; all members of a group have it in the
/// same round; each micro-batch with samples is in exactly one round of its owner (MicroBatchesOf). REQUIRES:
/// 0 <= filled <= micro_batches, group_micro_batches > 0.
std::vector<SyncRound> PlanSyncRounds(int64_t micro_batches, int64_t filled, int64_t group_micro_batches,
                                      int rank, int world_size);

class SyncBatchNorm : public models::BatchNormScope {
 public:
  /// `group` null: alone. On CUDA the group must work on CUDA tensors (NCCL).
  SyncBatchNorm(collectives::ProcessGroup group, int rank, int world_size);
  ~SyncBatchNorm() override;

  /// Whose samples the next passes are normalised with. An empty list: this worker has none and takes
  /// part in the collectives only.
  void SetRound(const std::vector<int>& members);

  /// Throws what the group throws. Gradients of weight and bias are of the own samples only: their sum over
  /// the workers is the group's. Statistics are the whole group's, the same on each member.
  models::Normalised Normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               double eps) override;

  struct Round;

 private:
  const collectives::ProcessGroup group_;
  const int rank_, world_size_;
  c10::intrusive_ptr<Round> round_;
};

/// One SyncBatchNorm for every batch normalisation of `model`.
std::shared_ptr<SyncBatchNorm> MakeSyncBatchNorm(const torch::nn::Module& model,
                                                 collectives::ProcessGroup group, int rank, int world_size);

}  // namespace mtrun::trainers
