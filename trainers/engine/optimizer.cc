#include "trainers/engine/optimizer.h"

#include <algorithm>
#include <iterator>

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

/// Parameters with the same weight decay: one call of a fused kernel.
struct Group {
  double weight_decay = 0;
  std::vector<size_t> indices;  // into the parameters
  Tensors parameters, gradients;
};

/// One group, or two where vectors (biases, norms) are spared the weight decay.
std::vector<Group> MakeGroups(const OptimizerOptions& options, const Tensors& parameters) {
  Group decayed{options.weight_decay, {}, {}, {}}, spared;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool spare = !options.decay_vectors && options.weight_decay > 0 && parameters[i].dim() <= 1;
    Group& group = spare ? spared : decayed;
    group.indices.push_back(i);
    // The fused kernels may see parameters as leaves that require gradients; detached aliases keep autograd
    // out.
    group.parameters.push_back(parameters[i].detach());
  }
  std::vector<Group> groups;
  for (Group* group : {&decayed, &spared}) {
    if (!group->indices.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

/// What all optimizers share: groups, names, and the learning rate as a 0-dimensional tensor.
class FusedOptimizer : public Optimizer {
 public:
  void BindGradients(const Tensors& gradients) override {
    MT_CHECK(gradients.size() == names_.size()) << gradients.size() << " gradients";
    for (Group& group : groups_) {
      group.gradients.clear();
      for (const size_t i : group.indices) {
        MT_CHECK(gradients[i].strides() == group.parameters[group.gradients.size()].strides()) << names_[i];
        group.gradients.push_back(gradients[i]);
      }
    }
  }

  void SetRate(double learning_rate) override {
    if (rate_.is_cpu()) {
      *rate_.data_ptr<double>() = learning_rate;
    } else {
      rate_.fill_(learning_rate);
    }
  }
  void KeepRateOnDevice() override {
    const at::Device device = groups_.front().parameters.front().device();
    if (!device.is_cpu()) rate_ = at::zeros({}, at::TensorOptions(at::kFloat).device(device));
  }

 protected:
  FusedOptimizer(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names)
      : options_(options), groups_(MakeGroups(options, parameters)), names_(std::move(names)) {
    for (size_t i = names_.size(); i < parameters.size(); ++i) names_.push_back(absl::StrCat(i));
  }
  const at::Tensor& rate() const { return rate_; }
  /// kinds[k].second[g][j] is a state of parameter groups_[g].indices[j].
  NamedState Named(const std::vector<std::pair<std::string, const std::vector<Tensors>*>>& kinds) const {
    std::vector<NamedState> of(names_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t j = 0; j < groups_[g].indices.size(); ++j) {
        const size_t i = groups_[g].indices[j];
        for (const auto& [kind, tensors] : kinds)
          of[i].emplace_back(names_[i] + "." + kind, (*tensors)[g][j]);
      }
    }
    NamedState all;
    for (auto& state : of) std::move(state.begin(), state.end(), std::back_inserter(all));
    return all;
  }

  const OptimizerOptions options_;
  std::vector<Group> groups_;

 private:
  std::vector<std::string> names_;
  at::Tensor rate_ = at::zeros({}, at::kDouble);
};

class Sgd : public FusedOptimizer {
 public:
  Sgd(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names)
      : FusedOptimizer(options, parameters, std::move(names)) {
    for (const Group& group : groups_)
      momentum_.push_back(options.momentum == 0 ? Tensors{} : ZerosLike(group.parameters));
  }
  void Update() override {
    torch::NoGradGuard no_grad;
    // Never the first step: without dampening, a momentum of zeros gives what torch starts with.
    for (size_t g = 0; g < groups_.size(); ++g) {
      at::_fused_sgd_(groups_[g].parameters, groups_[g].gradients, momentum_[g], groups_[g].weight_decay,
                      options_.momentum, rate(), /*dampening=*/0.0, options_.nesterov,
                      /*maximize=*/false, /*is_first_step=*/false);
    }
  }
  NamedState State() const override {
    return options_.momentum == 0 ? NamedState{} : Named({{"momentum_buffer", &momentum_}});
  }

 private:
  std::vector<Tensors> momentum_;  // by group
};

class Adam : public FusedOptimizer {
 public:
  Adam(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names)
      : FusedOptimizer(options, parameters, std::move(names)) {
    for (const Group& group : groups_) {
      first_moment_.push_back(ZerosLike(group.parameters));
      second_moment_.push_back(ZerosLike(group.parameters));
      Tensors& steps = steps_.emplace_back();
      for (const auto& p : group.parameters) steps.push_back(at::zeros({}, p.options().dtype(at::kFloat)));
    }
  }
  void Update() override {
    torch::NoGradGuard no_grad;
    for (size_t g = 0; g < groups_.size(); ++g) {
      at::_foreach_add_(steps_[g], 1);
      const auto update = [&](auto kernel) {
        kernel(groups_[g].parameters, groups_[g].gradients, first_moment_[g], second_moment_[g], Tensors{},
               steps_[g], rate(), options_.beta1, options_.beta2, groups_[g].weight_decay, options_.eps,
               /*amsgrad=*/false, /*maximize=*/false);
      };
      if (options_.kind == OptimizerOptions::Kind::kAdam) {
        update([](const auto&... arguments) { at::_fused_adam_(arguments...); });
      } else {
        update([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
      }
    }
  }
  NamedState State() const override {
    return Named({{"exp_avg", &first_moment_}, {"exp_avg_sq", &second_moment_}, {"step", &steps_}});
  }

 private:
  std::vector<Tensors> first_moment_, second_moment_, steps_;  // by group
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options, Tensors parameters,
                                         std::vector<std::string> names) {
  MT_CHECK(names.empty() || names.size() == parameters.size());
  if (options.kind == OptimizerOptions::Kind::kSgd) {
    return std::make_unique<Sgd>(options, parameters, std::move(names));
  }
  return std::make_unique<Adam>(options, parameters, std::move(names));
}

}  // namespace mtrun::engine
