// Batch normalisation over groups of G consecutive shards of a step (--sync_bn). The grouping is by shard
// number, so a step comes to the same at any number of workers. Each layer makes one small all-reduce forward
// and one backward, of every worker. Not thread-safe.
//
// What the step has to do. All workers make the same number of passes ("rounds", PlanSyncRounds). In each one
// a worker concatenates the samples of its round's shards into one batch, calls SyncBatchNorm::SetRound, runs
// forward and backward once with the loss weighted by its samples / N, and only then goes on. A worker
// without shards in a round does the same with an empty batch ([0, 3, S, S]) and 0 * logits.sum() as its
// loss: so every worker makes the same sequence of collective calls, those of the gradient buckets included,
// if LastRound() precedes the backward pass of the plan's last round on every member.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "trainers/collectives/cpu_group.h"
#include "trainers/engine/shards.h"
#include "trainers/models/batch_norm.h"

namespace mtrun::engine {

/// One pass of one worker.
struct SyncRound {
  ShardRange shards;         // of one group; empty: the worker only joins in
  std::vector<int> members;  // ranks that have shards of that group, in order; empty with `shards`
  bool operator==(const SyncRound&) const = default;
};

/// The passes of worker `rank` of `world_size`: `shards` is V, of which the first `filled` have samples in
/// this step; groups are of `group_shards` shards, the last one possibly of fewer. Every rank gets the same
/// number of rounds, as few as there can be; all members of a group have it in the same round; each shard
/// with samples is in exactly one round of its owner (ShardsOf). REQUIRES: 0 <= filled <= shards,
/// group_shards > 0.
std::vector<SyncRound> PlanSyncRounds(int64_t shards, int64_t filled, int64_t group_shards, int rank,
                                      int world_size);

class SyncBatchNorm : public models::BatchNormScope {
 public:
  /// `group` null: alone. On CUDA the group must work on CUDA tensors (NCCL).
  SyncBatchNorm(collectives::ProcessGroup group, int rank, int world_size);
  ~SyncBatchNorm() override;

  /// Whose samples the next passes are normalised with. An empty list: this worker has none and only joins
  /// in.
  void SetRound(std::vector<int> members);

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

}  // namespace mtrun::engine
