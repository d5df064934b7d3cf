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

  /// gradients[i] (same shape, strides, device and dtype) belongs to parameter i and stays that tensor.
  /// Before the first Step, and again when gradients live elsewhere.
  virtual void BindGradients(const std::vector<at::Tensor>& gradients) = 0;
  /// Updates the parameters in place from their gradients, which stay as they are.
  void Step(double learning_rate) {
    SetRate(learning_rate);
    Update();
  }
  /// Step in two halves: the second one is the same device operations each time, once the rate lies on the
  /// device.
  virtual void SetRate(double learning_rate) = 0;
  virtual void Update() = 0;
  /// From here on, so that a captured Update follows a schedule. In float32 on a GPU, as its kernels want it.
  virtual void KeepRateOnDevice() = 0;
  /// Everything that a checkpoint has to hold, parameter by parameter, with torch's names after the
  /// parameter's: "conv1.weight.exp_avg", ".exp_avg_sq", ".step"; ".momentum_buffer". Aliases, so copying
  /// into them sets the optimizer.
  virtual NamedState State() const = 0;
};

/// `parameters` stay the same tensors; names[i] is the name of parameters[i], its index where `names` is
/// empty.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         const std::vector<at::Tensor>& parameters,
                                         std::vector<std::string> names = {});

}  // namespace mtrun::trainers
