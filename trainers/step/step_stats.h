// What the passes of a worker's step add up to beside gradients: loss and right predictions. On the CPU in
// double, at once; on another device, and for captures, by device operations that nobody waits for. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "datasets/sample_sum.h"
#include "trainers/step/step_sums.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

class StepStats {
 public:
  /// `passes`: at most so many a step. `on_device`: sums stay there.
  StepStats(at::Device device, int64_t passes, bool on_device);

  /// `last`: of the step before.
  void Begin(StepVotes votes, const StepTimes& last = {});
  /// The result of pass number `pass`, of weight n_micro_batch / N. A capture can repeat it if on_device.
  void Add(size_t pass, const Task::Output& output, double weight);
  /// The samples that this worker took for a pass.
  void AddGathered(const datasets::SampleSum& samples) { record_.gathered += samples; }
  /// Of the passes, float64 [kSums] on the device: what Own wants once it has been read.
  static constexpr int64_t kSums = 2;
  const at::Tensor& sums() const { return sums_; }
  /// After the last forward pass. `read`: sums() on the CPU, or longer.
  StepSums Own(const at::Tensor& read) const;
  StepSums Own() const { return Own(sums_); }
  /// The passes since Begin whose loss was not finite. Waits for the device.
  std::vector<size_t> NotFinite() const;

 private:
  const bool on_device_;
  at::Tensor losses_;  // double [passes]; 0: no such pass
  at::Tensor sums_;    // double [kSums], if on_device: weighted loss, right predictions
  StepSums record_;
};

}  // namespace mtrun::trainers
