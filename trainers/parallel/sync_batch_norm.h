// Batch normalisation over groups of G consecutive micro-batches of a step (--sync_bn). The grouping is by
// micro-batch number, so a step has the same result at any number of workers. Each layer makes one small
// all-reduce forward and one backward, over all workers. Not thread-safe.
//
// Requirements of the step: all workers make the same number of passes ("rounds", PlanSyncRounds). In each
// one a worker concatenates the samples of its round's micro-batches into one batch, calls
// SyncBatchNorm::SetRound, and runs forward and backward once with the loss weighted by its samples / N,
// before it continues. If a worker has no micro-batches in a round, it uses an empty batch ([0, 3, S, S]) and
// 0 * logits.sum() as its loss. All workers then make the same sequence of collective calls, including those
// of the gradient buckets, if every member calls LastRound() before the last round's backward pass.
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
  MicroBatchRange micro_batches;  // micro-batches of one group; empty: the worker only joins the collectives
  std::vector<int> members;  // ranks with micro-batches of that group, in order; empty with `micro_batches`
  bool operator==(const SyncRound&) const = default;
};

/// Returns the passes of worker `rank` of `world_size`. `micro_batches` is V, of which the first `filled`
/// have samples in this step. A group has `group_micro_batches` micro-batches, the last one possibly fewer.
/// Every rank gets the same number of rounds, as few as possible. All members of a group have it in the same
/// round. Each micro-batch with samples is in exactly one round of its owner (MicroBatchesOf). REQUIRES: 0 <=
/// filled <= micro_batches, group_micro_batches > 0.
std::vector<SyncRound> PlanSyncRounds(int64_t micro_batches, int64_t filled, int64_t group_micro_batches,
                                      int rank, int world_size);

class SyncBatchNorm : public models::BatchNormScope {
 public:
  /// `group`: null for a worker alone. On CUDA it must work on CUDA tensors (NCCL).
  SyncBatchNorm(collectives::ProcessGroup group, int rank, int world_size);
  ~SyncBatchNorm() override;

  /// Sets the ranks whose samples normalise the next passes. Empty: this worker only joins the collectives.
  void SetRound(const std::vector<int>& members);

  /// Normalises with the whole group's statistics, which are the same on each member. Gradients of weight and
  /// bias are of this worker's samples: their sum over the workers is the group's. Throws the group's errors.
  models::Normalised Normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               double eps) override;

  struct Round;

 private:
  const collectives::ProcessGroup group_;
  const int rank_, world_size_;
  c10::intrusive_ptr<Round> round_;
};

/// Makes one SyncBatchNorm for every batch normalisation of `model`.
std::shared_ptr<SyncBatchNorm> MakeSyncBatchNorm(const torch::nn::Module& model,
                                                 collectives::ProcessGroup group, int rank, int world_size);

}  // namespace mtrun::trainers
