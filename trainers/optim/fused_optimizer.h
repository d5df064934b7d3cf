// The common part of all optimizers over fused kernels: groups, names, and the learning rate as a
// 0-dimensional tensor. Not thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainers/optim/optimizer.h"

namespace mtrun::trainers {

using Tensors = std::vector<at::Tensor>;

/// Returns zeros of the same shapes and strides.
Tensors ZerosLike(const Tensors& tensors);

/// Base of all optimizers. A new one implements Update and State and adds a line to optimizer_kinds.h.
class FusedOptimizer : public Optimizer {
 public:
  void BindGradients(const Tensors& gradients) override;
  void SetRate(double learning_rate) override;
  void KeepRateOnDevice() override;

 protected:
  /// Parameters with the same weight decay: one call of a fused kernel.
  struct Group {
    double weight_decay = 0;
    std::vector<size_t> indices;  // into the parameters
    Tensors parameters, gradients;
  };

  FusedOptimizer(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names);
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

}  // namespace mtrun::trainers
