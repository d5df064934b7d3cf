// Samples of a run in the order of its steps. Thread-safe, except that one thread at a time may call Make.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datasets/order/sampler.h"
#include "datasets/packed/packed.h"
#include "trainers/input/batch.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/input/read_ahead.h"
#include "trainers/input/source_options.h"

namespace mtrun::trainers {

/// Returns whether the source reads and decodes images ahead on its own threads. It does if they are encoded
/// and not kept on the device, or if their part, size or colours change each time.
bool ReadsAhead(const datasets::PackedSplit& data, const Reading& reading, const BatchOptions& batch);

/// Reads a packed training split in the sampler's order and augments it. A pure function of (options, data).
class DatasetSource : public MicroBatchSource {
 public:
  /// `data` must outlive this.
  DatasetSource(const datasets::PackedSplit& data, const SourceOptions& options, const BatchOptions& batch);

  int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  int64_t micro_batches() const override { return options_.plan.micro_batches(); }
  int64_t SamplesInStep(int64_t step) const override;
  int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const override;
  bool Has(int64_t step, int64_t micro_batch) const override;
  int64_t Replaced() const override { return data_.replaced(); }
  Batch Make(int64_t step, int64_t micro_batch) override;
  Batch Empty(int64_t step) override;
  BatchInputs Inputs(int64_t step, int64_t micro_batch) override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;
  void Expect(int64_t step, int64_t begin, int64_t end) override {
    if (reader_) reader_->Expect(step, begin, end);
  }
  /// Returns datasets::DigestOfIds of all samples of the step, for the ledger.
  std::string DigestOfStep(int64_t step) const;
  /// Returns the images of a micro-batch.
  std::vector<int64_t> IdsOf(int64_t step, int64_t micro_batch) const;
  /// Does not read images ahead for micro-batches for which `skips`, called on any thread, returns true.
  void SkipReadsIf(std::function<bool(int64_t step, int64_t micro_batch)> skips) {
    if (reader_) reader_->SkipIf(std::move(skips));
  }

 private:
  BatchInputs Placed(int64_t step, int64_t micro_batch) const;
  int SizeOf(int64_t step) const;
  Batch Warped(Batch batch, const at::Tensor& random) const;

  const datasets::PackedSplit& data_;
  const SourceOptions options_;
  const datasets::Sampler sampler_;
  const std::unique_ptr<ImageBatches> batches_;
  const int image_size_;  // at the end of the run, if images grow
  const at::ScalarType dtype_;
  const at::MemoryFormat format_;
  const at::Device device_;
  const std::unique_ptr<ReadAhead> reader_;  // null: `batches_` finds the images itself
};

}  // namespace mtrun::trainers
