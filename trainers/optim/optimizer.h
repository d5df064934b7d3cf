// Optimizers over ATen's fused kernels (one pass over all parameters, on the CPU and on CUDA), with the
// learning rate as a tensor so that a captured graph can follow a schedule. Same arithmetic as torch.optim.
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainers/optim/optimizer_options.h"

namespace mtrun::trainers {

class Optimizer {
 public:
  using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
  virtual ~Optimizer() = default;

  /// Sets the gradients. gradients[i] (same shape, strides, device and dtype) belongs to parameter i and must
  /// stay that tensor. Call it before the first Step, and again if the gradients move.
  virtual void BindGradients(const std::vector<at::Tensor>& gradients) = 0;
  /// Updates the parameters in place from their gradients, which do not change.
  void Step(double learning_rate) {
    SetRate(learning_rate);
    Update();
  }
  /// The two halves of Step. Update is the same device operations each time if the rate is on the device.
  virtual void SetRate(double learning_rate) = 0;
  virtual void Update() = 0;
  /// Keeps the rate on the device from here on, so that a captured Update follows a schedule. It is float32
  /// on a GPU, because its kernels want that.
  virtual void KeepRateOnDevice() = 0;
  /// Returns a checkpoint's state, parameter by parameter, with torch's names after the parameter's:
  /// "conv1.weight.exp_avg", ".exp_avg_sq", ".step"; ".momentum_buffer". Copying into these aliases sets it.
  virtual NamedState State() const = 0;
};

/// Makes an optimizer. `parameters` must stay the same tensors. names[i] is the name of parameters[i]; if
/// `names` is empty, it is the index.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         const std::vector<at::Tensor>& parameters,
                                         std::vector<std::string> names = {});

}  // namespace mtrun::trainers
