// Loss scaling for fp16, with the rules of torch.amp.GradScaler: gradients are computed for scale * loss,
// divided by the scale after the sum over the workers, and a step whose gradients are not all finite is
// skipped. Everything stays on the device and nothing waits for it. Because the test comes after the
// reduction, all ranks decide alike. Not thread-safe.
//
// A step is: backward from RootGradient; the reduction; Unscale; the optimizer, unless found_inf; Update.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace mtrun::trainers {

class GradScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2, backoff_factor = 0.5;
    int64_t growth_interval = 2000;  // good steps in a row before the scale grows
  };

  explicit GradScaler(at::Device device) : GradScaler(device, Options{}) {}
  GradScaler(at::Device device, const Options& options);

  /// Returns the value that backward starts from instead of 1: `weight` (a micro-batch's n/N) first, then the
  /// scale. 0-dimensional, like `loss`.
  at::Tensor RootGradient(const at::Tensor& loss, double weight) const;
  /// Divides reduced gradients by the scale in place and checks if any is infinite or NaN. Call it once a
  /// step; the tensors may be the flat buckets.
  void Unscale(const std::vector<at::Tensor>& gradients);
  /// Marks the step as one with an infinity, whatever its gradients are. Call it after Unscale.
  void MarkInfinite() { found_inf_.fill_(1); }
  /// float32 [1]: 1 if Unscale found an infinity or NaN, otherwise 0. The fused optimizers' found_inf input.
  const at::Tensor& found_inf() const { return found_inf_; }
  /// Halves the scale if found_inf, grows it after growth_interval good steps. Call it after the optimizer.
  void Update();

  /// float32 [1]; reading the value waits for the device.
  const at::Tensor& scale() const { return scale_; }
  /// Returns the state for checkpoints; aliases, so copying into them sets the scaler.
  std::vector<std::pair<std::string, at::Tensor>> State() const;

 private:
  const Options options_;
  at::Tensor scale_, growth_tracker_, found_inf_;
};

}  // namespace mtrun::trainers
