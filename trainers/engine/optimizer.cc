#include "trainers/engine/optimizer.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::engine {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors ZerosLike(const Tensors& tensors) {
  Tensors zeros;
  zeros.reserve(tensors.size());
  for (const auto& t : tensors) zeros.push_back(at::zeros_like(t, at::MemoryFormat::Preserve));
  return zeros;
}

void AppendNamed(Optimizer::NamedState& state, const std::string& kind, const Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) state.emplace_back(absl::StrCat(kind, "/", i), tensors[i]);
}

/// What all optimizers share: the tensors and the learning rate as a 0-dimensional tensor on the CPU.
class FusedOptimizer : public Optimizer {
 protected:
  FusedOptimizer(const OptimizerOptions& options, Tensors parameters, Tensors gradients)
      : options_(options), parameters_(std::move(parameters)), gradients_(std::move(gradients)) {
    MT_CHECK(parameters_.size() == gradients_.size());
    // The fused kernels may see parameters as leaves that require gradients; detached aliases keep autograd
    // out.
    for (auto& p : parameters_) p = p.detach();
  }
  const at::Tensor& Rate(double learning_rate) {
    *rate_.data_ptr<double>() = learning_rate;
    return rate_;
  }

  const OptimizerOptions options_;
  Tensors parameters_;
  const Tensors gradients_;

 private:
  at::Tensor rate_ = at::zeros({}, at::kDouble);
};

class Sgd : public FusedOptimizer {
 public:
  Sgd(const OptimizerOptions& options, Tensors parameters, Tensors gradients)
      : FusedOptimizer(options, std::move(parameters), std::move(gradients)) {
    if (options.momentum != 0) momentum_ = ZerosLike(parameters_);
  }
  void Step(double learning_rate) override {
    torch::NoGradGuard no_grad;
    at::_fused_sgd_(parameters_, gradients_, momentum_, options_.weight_decay, options_.momentum,
                    Rate(learning_rate),
                    /*dampening=*/0.0, options_.nesterov, /*maximize=*/false, first_step_);
    first_step_ = false;
  }
  NamedState State() const override {
    NamedState state;
    AppendNamed(state, "momentum", momentum_);
    return state;
  }

 private:
  Tensors momentum_;
  bool first_step_ = true;
};

class Adam : public FusedOptimizer {
 public:
  Adam(const OptimizerOptions& options, Tensors parameters, Tensors gradients)
      : FusedOptimizer(options, std::move(parameters), std::move(gradients)),
        first_moment_(ZerosLike(parameters_)),
        second_moment_(ZerosLike(parameters_)) {
    for (const auto& p : parameters_) steps_.push_back(at::zeros({}, p.options().dtype(at::kFloat)));
  }
  void Step(double learning_rate) override {
    torch::NoGradGuard no_grad;
    for (auto& step : steps_) step.add_(1);
    const at::Tensor& rate = Rate(learning_rate);
    const auto update = [&](auto kernel) {
      kernel(parameters_, gradients_, first_moment_, second_moment_, Tensors{}, steps_, rate, options_.beta1,
             options_.beta2, options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
    };
    if (options_.kind == OptimizerOptions::Kind::kAdam) {
      update([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    } else {
      update([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    }
  }
  NamedState State() const override {
    NamedState state;
    AppendNamed(state, "exp_avg", first_moment_);
    AppendNamed(state, "exp_avg_sq", second_moment_);
    AppendNamed(state, "step", steps_);
    return state;
  }

 private:
  Tensors first_moment_, second_moment_, steps_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options, Tensors parameters,
                                         Tensors gradients) {
  if (options.kind == OptimizerOptions::Kind::kSgd) {
    return std::make_unique<Sgd>(options, std::move(parameters), std::move(gradients));
  }
  return std::make_unique<Adam>(options, std::move(parameters), std::move(gradients));
}

}  // namespace mtrun::engine
