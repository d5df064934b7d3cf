#include "trainers/input/dataset_source.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "trainers/input/image_augment.h"
#include "trainers/random/draw.h"

namespace mtrun::trainers {

bool ReadsAhead(const datasets::PackedSplit& data, const Reading& reading, const BatchOptions& batch) {
  return reading.changes() || (data.encoded() && !batch.resident);
}

DatasetSource::DatasetSource(const datasets::PackedSplit& data, const SourceOptions& options,
                             const BatchOptions& batch)
    : data_(data),
      options_(options),
      sampler_(MakeSampler(options.seed, options.plan, options.shuffle,
                           {data.shard_counts(), options.shuffle_window})),
      batches_(MakeImageBatches(data, batch)),
      image_size_(batch.image_size),
      dtype_(batch.dtype),
      format_(batch.format),
      device_(batch.device),
      reader_(ReadsAhead(data, options.reading, batch)
                  ? std::make_unique<ReadAhead>(
                        data,
                        ReadAhead::Options{.reading = options.reading,
                                           .seed = options.seed,
                                           .device = batch.device,
                                           .threads = batch.read_threads,
                                           .ahead = batch.read_ahead,
                                           .most_bytes = batch.read_ahead_bytes},
                        [this](int64_t step, int64_t micro_batch) {
                          return ReadAhead::Request{IdsOf(step, micro_batch), SizeOf(step)};
                        })
                  : nullptr) {}

std::vector<int64_t> DatasetSource::IdsOf(int64_t step, int64_t micro_batch) const {
  const int64_t each = sampler_.steps_per_epoch();
  return sampler_.MicroBatch(step / each, step % each, micro_batch);
}

int DatasetSource::SizeOf(int64_t step) const {
  return SizeInEpoch(options_.reading.growth, image_size_, step / sampler_.steps_per_epoch());
}

int64_t DatasetSource::SamplesInStep(int64_t step) const {
  return sampler_.samples_in_step(step % sampler_.steps_per_epoch());
}

int64_t DatasetSource::SamplesInMicroBatch(int64_t step, int64_t micro_batch) const {
  return sampler_.samples_in_micro_batch(step % sampler_.steps_per_epoch(), micro_batch);
}

bool DatasetSource::Has(int64_t step, int64_t micro_batch) const {
  if (data_.has_all()) return true;
  const std::vector<int64_t> ids = IdsOf(step, micro_batch);
  return std::all_of(ids.begin(), ids.end(), [this](int64_t id) { return data_.has(id); });
}

BatchInputs DatasetSource::Placed(int64_t step, int64_t micro_batch) const {
  std::vector<Placement> placements;
  if (options_.augmentation.any()) {
    placements =
        DrawPlacements(options_.augmentation, RandomStream(options_.seed, step, micro_batch, "augment"),
                       SamplesInMicroBatch(step, micro_batch));
  }
  if (reader_) return batches_->InputsOf(reader_->Take(step, micro_batch), placements);
  return batches_->Inputs(IdsOf(step, micro_batch), placements);
}

Batch DatasetSource::Warped(Batch batch, const at::Tensor& random) const {
  return {AugmentBy(random, batch.images, options_.warps).contiguous(format_), batch.labels};
}

Batch DatasetSource::Make(int64_t step, int64_t micro_batch) {
  const BatchInputs inputs = Inputs(step, micro_batch);
  return WithGathered(Compose(inputs.tensors), inputs.gathered);
}

Batch DatasetSource::Empty(int64_t step) {
  const int64_t size = SizeOf(step);
  return {at::empty({0, datasets::PackedSplit::channels(), size, size},
                    at::TensorOptions(dtype_).device(device_), format_),
          at::empty({0}, at::TensorOptions(at::kLong).device(device_))};
}

BatchInputs DatasetSource::Inputs(int64_t step, int64_t micro_batch) {
  BatchInputs inputs = Placed(step, micro_batch);
  if (!options_.warps.any()) return inputs;
  const RandomStream stream(options_.seed, step, micro_batch, "warp");
  const at::Tensor random =
      DrawAugmentation(SamplesInMicroBatch(step, micro_batch), options_.warps, OnDevice(stream, device_));
  if (options_.warps.rand_augment == 0) {
    inputs.tensors.push_back(random);
    return inputs;
  }
  // RandAugment applies each operation to a random number of images, so its operations have no fixed sizes.
  const Batch batch = Warped(batches_->Compose(inputs.tensors), random);
  return {{batch.images, batch.labels}, inputs.gathered};
}

Batch DatasetSource::Compose(const std::vector<at::Tensor>& inputs) const {
  if (!options_.warps.any()) return batches_->Compose(inputs);
  if (options_.warps.rand_augment > 0) return {inputs[0], inputs[1]};
  return Warped(batches_->Compose(inputs), inputs.back());
}

std::string DatasetSource::DigestOfStep(int64_t step) const {
  const int64_t each = sampler_.steps_per_epoch();
  return datasets::DigestOfIds(sampler_.Step(step / each, step % each));
}

}  // namespace mtrun::trainers
