#include "trainers/engine/dataset_shards.h"

#include <vector>

#include "trainers/engine/generator.h"
#include "trainers/engine/image_augment.h"

namespace mtrun::engine {

DatasetShards::DatasetShards(const datasets::PackedSplit& data, const TrainOptions& options,
                             const BatchOptions& batch)
    : plan_(options.plan),
      sampler_(options.seed, data.size(), options.plan, options.shuffle),
      batches_(MakeImageBatches(data, batch)),
      format_(batch.format),
      device_(batch.device),
      augmentation_(options.augmentation),
      warps_(options.warps),
      seed_(options.seed) {}

int64_t DatasetShards::SamplesInStep(int64_t step) const {
  return sampler_.samples_in_step(step % sampler_.steps_per_epoch());
}

int64_t DatasetShards::SamplesInShard(int64_t step, int64_t shard) const {
  return sampler_.samples_in_shard(step % sampler_.steps_per_epoch(), shard);
}

std::vector<at::Tensor> DatasetShards::Placed(int64_t step, int64_t shard) const {
  const int64_t each = sampler_.steps_per_epoch();
  const std::vector<int64_t> ids = sampler_.Shard(step / each, step % each, shard);
  std::vector<Placement> placements;
  if (augmentation_.any()) {
    placements = DrawPlacements(augmentation_, ShardStream(seed_, step, shard, "augment"),
                                static_cast<int64_t>(ids.size()));
  }
  return batches_->Inputs(ids, placements);
}

Batch DatasetShards::Warped(Batch batch, const at::Tensor& random) const {
  return {AugmentBy(random, batch.images, warps_).contiguous(format_), batch.labels};
}

std::vector<at::Tensor> DatasetShards::Inputs(int64_t step, int64_t shard) {
  std::vector<at::Tensor> inputs = Placed(step, shard);
  if (!warps_.any()) return inputs;
  const at::Tensor random =
      DrawAugmentation(SamplesInShard(step, shard), warps_, ShardGenerator(seed_, step, shard, "warp"))
          .to(device_);
  if (warps_.rand_augment == 0) {
    inputs.push_back(random);
    return inputs;
  }
  // How many images RandAugment turns, colours, ... is chance's: no sequence of operations of fixed sizes.
  const Batch batch = Warped(batches_->Compose(inputs), random);
  return {batch.images, batch.labels};
}

Batch DatasetShards::Compose(const std::vector<at::Tensor>& inputs) const {
  if (!warps_.any()) return batches_->Compose(inputs);
  if (warps_.rand_augment > 0) return {inputs[0], inputs[1]};
  return Warped(batches_->Compose(inputs), inputs.back());
}

std::string DatasetShards::DigestOfStep(int64_t step) const {
  const int64_t each = sampler_.steps_per_epoch();
  return datasets::DigestOfIds(sampler_.Step(step / each, step % each));
}

}  // namespace mtrun::engine
