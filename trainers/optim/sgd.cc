// torch.optim.SGD over the fused kernel.
#include <torch/types.h>
#include <torch/utils.h>

#include "trainers/optim/optimizer.h"

namespace mtrun::trainers {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const Tensors& parameters, std::vector<std::string> names)
      : Optimizer(options, parameters, std::move(names)) {
    for (const Group& group : groups_)
      momentum_.push_back(options.momentum == 0 ? Tensors{} : ZerosLike(group.parameters));
  }
  void Update() override {
    torch::NoGradGuard no_grad;
    // is_first_step is always false: without dampening, a momentum of zeros gives the same result.
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

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const OptimizerOptions& options, const Optimizer::Tensors& parameters,
                                   std::vector<std::string> names) {
  return std::make_unique<Sgd>(options, parameters, std::move(names));
}

}  // namespace mtrun::trainers
