// One optimizer step: this worker's shards forward and backward, the sum over the workers, the update. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/engine/batch.h"
#include "trainers/engine/classifier.h"
#include "trainers/engine/data_parallel.h"
#include "trainers/engine/optimizer.h"
#include "trainers/engine/shards.h"

namespace mtrun::engine {

/// Where the samples of a step come from. `step` counts over the whole run, from 0.
class ShardSource {
 public:
  virtual ~ShardSource() = default;
  /// V, the same for every step.
  virtual int64_t shards() const = 0;
  /// N.
  virtual int64_t SamplesInStep(int64_t step) const = 0;
  /// 0 for shards beyond a short last step of an epoch.
  virtual int64_t SamplesInShard(int64_t step, int64_t shard) const = 0;
  virtual Batch Make(int64_t step, int64_t shard) = 0;
};

struct StepResult {
  double loss = 0;      // mean over the step's samples, with the weights before the update
  int64_t correct = 0;  // right predictions, likewise
  int64_t samples = 0;
};

class StepRunner {
 public:
  /// Numbers that a step sums over the workers beside the gradients: loss and right predictions.
  static constexpr int kStats = 2;

  /// All references must outlive this; `data_parallel` was made with kStats.
  StepRunner(const Model& model, const MeanLoss& loss, ShardSource& source, DataParallel& data_parallel,
             Optimizer& optimizer);

  /// Computes the part of worker `rank` of `world_size`; the update is the same on all. A loss that is not
  /// finite is kOutOfRange on every member (the owner's message names step and shards) and nothing is
  /// updated. Other errors leave a torn step.
  absl::StatusOr<StepResult> Run(int64_t step, int rank, int world_size, double learning_rate);

 private:
  struct Shard {
    int64_t id, samples;
  };
  std::vector<Shard> OwnShards(int64_t step, int rank, int world_size) const;
  void ComputeShards(int64_t step, const std::vector<Shard>& shards);
  absl::Status CheckFinite(int64_t step, double loss) const;

  const Model& model_;
  const MeanLoss& loss_;
  ShardSource& source_;
  DataParallel& data_parallel_;
  Optimizer& optimizer_;
  std::vector<int64_t> bad_shards_;  // own shards of the running step whose loss is not finite
};

}  // namespace mtrun::engine
