// The samples of a run as its steps consume them. Make is for one thread at a time, the rest is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/packed.h"
#include "datasets/sampler.h"
#include "trainers/engine/options.h"
#include "trainers/engine/step.h"

namespace mtrun::engine {

/// A packed training split in the sampler's order, augmented as the options say: a pure function of (options,
/// data).
class DatasetShards : public ShardSource {
 public:
  DatasetShards(const datasets::PackedSplit& data, const TrainOptions& options, const BatchOptions& batch);

  int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  int64_t shards() const override { return plan_.shards(); }
  int64_t SamplesInStep(int64_t step) const override;
  int64_t SamplesInShard(int64_t step, int64_t shard) const override;
  Batch Make(int64_t step, int64_t shard) override { return Compose(Inputs(step, shard)); }
  std::vector<at::Tensor> Inputs(int64_t step, int64_t shard) override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;
  /// For the ledger: datasets::DigestOfIds of all samples of the step.
  std::string DigestOfStep(int64_t step) const;

 private:
  std::vector<at::Tensor> Placed(int64_t step, int64_t shard) const;
  Batch Warped(Batch batch, const at::Tensor& random) const;

  const datasets::BatchPlan plan_;
  const datasets::Sampler sampler_;
  const std::unique_ptr<ImageBatches> batches_;
  const at::MemoryFormat format_;
  const at::Device device_;
  const Augmentation augmentation_;
  const ImageAugmentation warps_;
  const uint64_t seed_;
};

}  // namespace mtrun::engine
