// Optimizers over ATen's fused kernels (one pass over all parameters, on the CPU and on CUDA), with the learning rate as a
// tensor so that a captured graph can follow a schedule. Same arithmetic as torch.optim. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"

namespace mtrun::engine {

struct OptimizerOptions {
  enum class Kind { kSgd, kAdam, kAdamW };
  Kind kind = Kind::kSgd;
  double momentum = 0;      // SGD
  bool nesterov = false;    // SGD; needs momentum
  double weight_decay = 0;  // L2 term for SGD and Adam, decoupled for AdamW
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam, AdamW
};

class Optimizer {
 public:
  using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
  virtual ~Optimizer() = default;

  /// Updates the parameters in place from their gradients, which stay as they are.
  virtual void Step(double learning_rate) = 0;
  /// Everything that a checkpoint has to hold, named "<kind of state>/<index of parameter>".
  virtual NamedState State() const = 0;
};

/// `parameters[i]` is updated from `gradients[i]` (same shape, device and dtype); both must stay the same tensors.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options, std::vector<at::Tensor> parameters,
                                         std::vector<at::Tensor> gradients);

/// "sgd" "adam" "adamw".
absl::StatusOr<OptimizerOptions::Kind> ParseOptimizerKind(std::string_view text);

}  // namespace mtrun::engine
