#include "trainers/optim/ema.h"

#include "base/status_macros.h"

namespace mtrun::trainers {

Ema::Ema(std::vector<at::Tensor> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  MT_CHECK(decay >= 0 && decay < 1) << "decay " << decay;
  torch::NoGradGuard no_grad;
  for (const auto& parameter : parameters_) {
    values_.push_back(parameter.detach());
    average_.push_back(values_.back().clone());
  }
}

void Ema::Update() {
  torch::NoGradGuard no_grad;
  at::_foreach_lerp_(average_, values_, 1 - decay_);
}

void Ema::Restart() {
  torch::NoGradGuard no_grad;
  at::_foreach_copy_(average_, values_);
}

std::vector<std::pair<std::string, at::Tensor>> Ema::State(const std::vector<std::string>& names) const {
  MT_CHECK(names.size() == average_.size());
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (size_t i = 0; i < names.size(); ++i) state.emplace_back(names[i], average_[i]);
  return state;
}

void Ema::Swap() {
  torch::NoGradGuard no_grad;
  // Swaps pointers and copies nothing: the optimizer's aliases and ours keep their memory.
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool averaged = parameters_[i].is_alias_of(average_[i]);
    parameters_[i].set_data(averaged ? values_[i] : average_[i]);
  }
}

}  // namespace mtrun::trainers
