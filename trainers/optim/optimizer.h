// Optimizers over ATen's fused kernels (one pass over all parameters, on the CPU and on CUDA), with the
// learning rate as a 0-dimensional tensor so that a captured graph can follow a schedule. Same arithmetic as
// torch.optim. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainers/optim/optimizer_options.h"

namespace mtrun::trainers {

/// Base of all optimizers. A new one implements Update and State and adds a line to optimizer_kinds.h.
class Optimizer {
 public:
  using Tensors = std::vector<at::Tensor>;
  using NamedState = std::vector<std::pair<std::string, at::Tensor>>;
  virtual ~Optimizer() = default;

  /// Sets the gradients. gradients[i] (same shape, strides, device and dtype) belongs to parameter i and must
  /// stay that tensor. Call it before the first Step, and again if the gradients move.
  void BindGradients(const Tensors& gradients);
  /// Updates the parameters in place from their gradients, which do not change.
  void Step(double learning_rate) {
    SetRate(learning_rate);
    Update();
  }
  /// The two halves of Step. Update is the same device operations each time if the rate is on the device.
  void SetRate(double learning_rate);
  virtual void Update() = 0;
  /// Keeps the rate on the device from here on, so that a captured Update follows a schedule. It is float32
  /// on a GPU, because its kernels want that.
  void KeepRateOnDevice();
  /// Returns a checkpoint's state, parameter by parameter, with torch's names after the parameter's:
  /// "conv1.weight.exp_avg", ".exp_avg_sq", ".step"; ".momentum_buffer". Copying into these aliases sets it.
  virtual NamedState State() const = 0;

 protected:
  /// Parameters with the same weight decay: one call of a fused kernel.
  struct Group {
    double weight_decay = 0;
    std::vector<size_t> indices;  // into the parameters
    Tensors parameters, gradients;
  };

  Optimizer(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names);
  /// Returns zeros of the same shapes and strides.
  static Tensors ZerosLike(const Tensors& tensors);
  const at::Tensor& rate() const { return rate_; }
  /// Returns named states by parameter. kinds[k].second[g][j] is that of parameter groups_[g].indices[j].
  NamedState Named(const std::vector<std::pair<std::string, const std::vector<Tensors>*>>& kinds) const;

  const OptimizerOptions options_;
  std::vector<Group> groups_;

 private:
  static std::vector<Group> MakeGroups(const OptimizerOptions& options, const Tensors& parameters);

  std::vector<std::string> names_;
  at::Tensor rate_;
};

/// Makes an optimizer. `parameters` must stay the same tensors. names[i] is the name of parameters[i]; if
/// `names` is empty, it is the index.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         const std::vector<at::Tensor>& parameters,
                                         std::vector<std::string> names = {});

}  // namespace mtrun::trainers
