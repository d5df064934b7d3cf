// Sums of a worker's passes in a step other than gradients: loss and right predictions. The CPU sums them in
// double, at once. For another device, or a capture, device operations do so without waiting. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "datasets/order/sample_sum.h"
#include "trainers/step/step_sums.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

class StepStats {
 public:
  /// `passes`: maximum in a step. `on_device`: sums stay there.
  StepStats(at::Device device, int64_t passes, bool on_device);

  /// Starts a step. `last`: times of the previous step.
  void Begin(StepVotes votes, const StepTimes& last = {});
  /// Adds the result of pass number `pass`, of weight n_micro_batch / N. Can be captured if on_device.
  void Add(size_t pass, const Task::Output& output, double weight);
  /// Adds the samples that this worker took for a pass.
  void AddGathered(const datasets::SampleSum& samples) { record_.gathered += samples; }
  /// Returns the sums of the passes, float64 [kSums] on the device. Own takes them after they have been read.
  static constexpr int64_t kSums = 2;
  const at::Tensor& sums() const { return sums_; }
  /// Returns this worker's record after the last forward pass. `read`: sums() on the CPU, or longer.
  StepSums Own(const at::Tensor& read) const;
  StepSums Own() const { return Own(sums_); }
  /// Returns the passes since Begin whose loss was not finite. Waits for the device.
  std::vector<size_t> NotFinite() const;

 private:
  const bool on_device_;
  at::Tensor losses_;  // double [passes]; 0: no such pass
  at::Tensor sums_;    // double [kSums], if on_device: weighted loss, right predictions
  StepSums record_;
};

}  // namespace mtrun::trainers
