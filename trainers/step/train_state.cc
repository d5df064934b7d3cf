#include "trainers/step/train_state.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/optim/clip_grad_norm.h"

namespace mtrun::trainers {
namespace {

std::vector<std::string> TrainedNames(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) names.push_back(item.key());
  }
  return names;
}

void Append(NamedTensors& all, const char* part, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) all.emplace_back(absl::StrCat(part, "/", name), tensor);
}

}  // namespace

std::vector<at::Tensor> TrainedParameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> trained;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

TrainState::TrainState(torch::nn::Module& module, const Options& options)
    : module_(module),
      options_(options),
      statistics_(module),
      trained_(TrainedParameters(module)),
      optimizer_(MakeOptimizer(options.optimizer, trained_, TrainedNames(module))) {
  MT_CHECK(!trained_.empty()) << "nothing to train";
  if (options.loss_scaling) scaler_.emplace(trained_.front().device(), *options.loss_scaling);
  if (options.ema_decay > 0) ema_.emplace(module.parameters(), options.ema_decay);
}

void TrainState::BindGradients(const std::vector<at::Tensor>& gradients) {
  gradients_ = gradients;
  optimizer_->BindGradients(gradients);
}

NamedTensors TrainState::Rest() const {
  NamedTensors all;
  Append(all, "optimizer", optimizer_->State());
  if (scaler_) Append(all, "scaler", scaler_->State());
  if (ema_) Append(all, "ema", ema_->State(module_.named_parameters().keys()));
  return all;
}

NamedTensors TrainState::AveragedWeights() const {
  if (!ema_) return {};
  NamedTensors weights = ema_->State(module_.named_parameters().keys());
  for (const auto& item : module_.named_buffers()) weights.emplace_back(item.key(), item.value().detach());
  return weights;
}

void TrainState::RestartAverage() {
  if (ema_) ema_->Restart();
}

at::Tensor TrainState::RootGradient(const at::Tensor& loss, double weight) const {
  if (scaler_) return scaler_->RootGradient(loss, weight);
  return at::scalar_tensor(weight, loss.options().requires_grad(false));
}

double TrainState::GradientNorm() const {
  torch::NoGradGuard no_grad;
  if (clipped_norm_.defined()) return clipped_norm_.item<double>();
  return at::stack(at::_foreach_norm(gradients_, 2)).norm().item<double>();
}

double TrainState::LossScale() const { return scaler_ ? scaler_->scale().item<double>() : 0; }

void TrainState::Update() {
  if (options_.clip_norm > 0) clipped_norm_ = ClipGradients(gradients_, options_.clip_norm);
  optimizer_->Update();
  statistics_.Move();
  if (ema_) ema_->Update();
}

bool TrainState::Apply(double learning_rate, bool finite, const Repeat& repeat) {
  const bool skipped = scaler_ && !finite;
  if (scaler_) {
    scaler_->Unscale(gradients_);
    if (!finite) scaler_->MarkInfinite();
  }
  if (!skipped) {
    optimizer_->SetRate(learning_rate);
    repeat([this] { Update(); });
  }
  if (scaler_) scaler_->Update();
  return !skipped;
}

}  // namespace mtrun::trainers
