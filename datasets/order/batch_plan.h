// How the samples of an epoch are divided into steps and micro-batches. A value; independent of the order.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mtrun::datasets {

/// Divides an optimizer step of B samples into V = ceil(B/b) micro-batches of b; the last one may be short.
struct BatchPlan {
  int64_t global_batch = 1;                                                                 // B
  int64_t micro_batch = 1;                                                                  // b
  int64_t micro_batches() const { return (global_batch + micro_batch - 1) / micro_batch; }  // V

  /// Returns ceil(size / B); the last step is short unless B divides size. REQUIRES: size >= 1.
  int64_t Steps(int64_t size) const { return (size - 1) / global_batch + 1; }
  /// Returns N, the number of samples in a step of an epoch over `size` samples; 0 after the last step.
  int64_t SamplesInStep(int64_t size, int64_t step) const {
    return step >= Steps(size) ? 0 : std::min(global_batch, size - step * global_batch);
  }
  /// Returns the number of samples in one micro-batch: 0 if it is beyond the end of a short last step.
  int64_t SamplesInMicroBatch(int64_t size, int64_t step, int64_t number) const {
    if (number >= micro_batches()) return 0;
    return std::clamp<int64_t>(SamplesInStep(size, step) - number * micro_batch, 0, micro_batch);
  }
  bool operator==(const BatchPlan&) const = default;
};

}  // namespace mtrun::datasets
