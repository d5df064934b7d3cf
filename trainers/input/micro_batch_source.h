// Source of a step's micro-batches. Implementations define their thread rules.
#pragma once

#include <cstdint>
#include <vector>

#include "trainers/input/batch.h"

namespace mtrun::trainers {

/// Makes the micro-batches of steps. `step` counts over the whole run, from 0.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;
  /// Returns V, the same for every step.
  virtual int64_t micro_batches() const = 0;
  /// Returns N.
  virtual int64_t SamplesInStep(int64_t step) const = 0;
  /// Returns 0 for micro-batches beyond a short last step of an epoch. Micro-batch 0 always has samples.
  virtual int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const = 0;
  virtual Batch Make(int64_t step, int64_t micro_batch) = 0;
  /// Makes a batch like those of the step but without samples. Needs none of the step's data.
  virtual Batch Empty(int64_t step) {
    const Batch like = Make(step, 0);
    return {like.images.narrow(0, 0, 0), like.labels.narrow(0, 0, 0)};
  }
  /// The two halves of Make, as in ImageBatches.
  virtual BatchInputs Inputs(int64_t step, int64_t micro_batch) {
    const Batch batch = Make(step, micro_batch);
    return {{batch.images, batch.labels}, batch.gathered};
  }
  virtual Batch Compose(const std::vector<at::Tensor>& inputs) const { return {inputs[0], inputs[1]}; }
  /// Returns whether a micro-batch's data is here. If not, it must not be requested yet, and hints of it are
  /// ignored. Any thread can call this.
  virtual bool Has(int64_t /*step*/, int64_t /*micro_batch*/) const { return true; }
  /// Returns a number that changes if data that may have been read is replaced. Batches made before from that
  /// data must be made again. Any thread can call this.
  virtual int64_t Replaced() const { return 0; }
  /// Hints that the next call of Make or Inputs is probably for this micro-batch, which is allowed.
  virtual void Ahead(int64_t /*step*/, int64_t /*micro_batch*/) {}
  /// Hints that micro-batches begin .. end - 1 of `step` and later steps will probably be requested in order.
  virtual void Expect(int64_t /*step*/, int64_t /*begin*/, int64_t /*end*/) {}
};

}  // namespace mtrun::trainers
