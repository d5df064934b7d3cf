// Where a step's micro-batches come from. Thread rules are the implementations'.
#pragma once

#include <cstdint>
#include <vector>

#include "trainers/input/batch.h"

namespace mtrun::trainers {

/// Where the samples of a step come from. `step` counts over the whole run, from 0.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;
  /// V, the same for every step.
  virtual int64_t micro_batches() const = 0;
  /// N.
  virtual int64_t SamplesInStep(int64_t step) const = 0;
  /// 0 for micro-batches beyond a short last step of an epoch; never for micro-batch 0.
  virtual int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const = 0;
  virtual Batch Make(int64_t step, int64_t micro_batch) = 0;
  /// A batch like those of the step without a sample in it; needs none of its data.
  virtual Batch Empty(int64_t step) {
    const Batch like = Make(step, 0);
    return {like.images.narrow(0, 0, 0), like.labels.narrow(0, 0, 0)};
  }
  /// Make in two halves, as ImageBatches has them.
  virtual BatchInputs Inputs(int64_t step, int64_t micro_batch) {
    const Batch batch = Make(step, micro_batch);
    return {{batch.images, batch.labels}, batch.gathered};
  }
  virtual Batch Compose(const std::vector<at::Tensor>& inputs) const { return {inputs[0], inputs[1]}; }
  /// Whether the data of a micro-batch are here: others may not be asked for yet, and a hint of them is
  /// passed over. Any thread.
  virtual bool Has(int64_t step, int64_t micro_batch) const {
    static_cast<void>(step);
    static_cast<void>(micro_batch);
    return true;
  }
  /// Another number when data that may have been read before are others now: what was made of them before is
  /// made again. Any thread.
  virtual int64_t Replaced() const { return 0; }
  /// A hint: the next call of Make or Inputs is likely to be this one, which is allowed.
  virtual void Ahead(int64_t step, int64_t micro_batch) {
    static_cast<void>(step);
    static_cast<void>(micro_batch);
  }
  /// A hint: of `step`, and of the steps after it, micro-batches begin .. end - 1 are likely to be asked for,
  /// one after the other.
  virtual void Expect(int64_t step, int64_t begin, int64_t end) {
    static_cast<void>(step);
    static_cast<void>(begin);
    static_cast<void>(end);
  }
};

}  // namespace mtrun::trainers
