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
      augmentation_(options.augmentation),
      warps_(options.warps),
      seed_(options.seed) {}

int64_t DatasetShards::SamplesInStep(int64_t step) const {
  return sampler_.samples_in_step(step % sampler_.steps_per_epoch());
}

int64_t DatasetShards::SamplesInShard(int64_t step, int64_t shard) const {
  return sampler_.samples_in_shard(step % sampler_.steps_per_epoch(), shard);
}

Batch DatasetShards::Make(int64_t step, int64_t shard) {
  const int64_t each = sampler_.steps_per_epoch();
  const std::vector<int64_t> ids = sampler_.Shard(step / each, step % each, shard);
  std::vector<Placement> placements;
  if (augmentation_.any()) {
    placements = DrawPlacements(augmentation_, ShardStream(seed_, step, shard, "augment"),
                                static_cast<int64_t>(ids.size()));
  }
  Batch batch = batches_->Make(ids, placements);
  if (warps_.any()) {
    batch.images =
        Augment(batch.images, warps_, ShardGenerator(seed_, step, shard, "warp")).contiguous(format_);
  }
  return batch;
}

std::string DatasetShards::DigestOfStep(int64_t step) const {
  const int64_t each = sampler_.steps_per_epoch();
  return datasets::DigestOfIds(sampler_.Step(step / each, step % each));
}

}  // namespace mtrun::engine
