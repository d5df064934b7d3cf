// Optimizers over ATen's fused kernels (one pass over all parameters, on the CPU and on CUDA), with the
// learning rate as a tensor so that a captured graph can follow a schedule. Same arithmetic as torch.optim.
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainers/engine/optimizer_options.h"

namespace mtrun::engine {

class Optimizer {
 public:
  using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
  virtual ~Optimizer() = default;

  /// Updates the parameters in place from their gradients, which stay as they are.
  virtual void Step(double learning_rate) = 0;
  /// Everything that a checkpoint has to hold, named "<kind of state>/<index of parameter>".
  virtual NamedState State() const = 0;
};

/// `parameters[i]` is updated from `gradients[i]` (same shape, device and dtype); both must stay the same
/// tensors.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options, std::vector<at::Tensor> parameters,
                                         std::vector<at::Tensor> gradients);

}  // namespace mtrun::engine
