// torch.optim.Adam and AdamW over the fused kernels.
#include <torch/types.h>
#include <torch/utils.h>

#include "trainers/optim/optimizer.h"

namespace mtrun::trainers {
namespace {

class Adam : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names)
      : Optimizer(options, parameters, std::move(names)) {
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

std::unique_ptr<Optimizer> MakeAdam(const OptimizerOptions& options, const Optimizer::Tensors& parameters,
                                    std::vector<std::string> names) {
  return std::make_unique<Adam>(options, parameters, std::move(names));
}

}  // namespace mtrun::trainers
