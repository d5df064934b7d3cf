#include "trainers/step/captured_step.h"

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

std::vector<at::Tensor> CopiesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

void CopyInto(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  MT_CHECK(to.size() == from.size()) << from.size() << " inputs instead of " << to.size();
  for (size_t i = 0; i < to.size(); ++i) {
    MT_CHECK(to[i].sizes() == from[i].sizes()) << "input " << i;
    to[i].copy_(from[i]);
  }
}

}  // namespace

void CapturedStep::Run(CapturePlan::Action action, const std::vector<PassInputs>& inputs, const Work& work) {
  MT_CHECK(action != CapturePlan::Action::kEager);
  if (action == CapturePlan::Action::kCapture) Capture(inputs, work);
  Take(inputs);
  graph_->Replay();
}

void CapturedStep::Capture(const std::vector<PassInputs>& inputs, const Work& work) {
  graph_.reset();
  inputs_.clear();
  std::vector<at::Generator> generators;
  for (const PassInputs& pass : inputs) {
    PassInputs own{CopiesOf(pass.batch), {CopiesOf(pass.random.drawn), {}}};
    if (pass.random.generator.defined()) {
      generators.push_back(own.random.generator = pass.random.generator.clone());
    }
    inputs_.push_back(std::move(own));
  }
  graph_ = make_();
  graph_->Capture([this, work] { work(inputs_); }, generators);
}

void CapturedStep::Take(const std::vector<PassInputs>& inputs) {
  torch::NoGradGuard no_grad;
  MT_CHECK(inputs.size() == inputs_.size()) << inputs.size() << " passes instead of " << inputs_.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    CopyInto(inputs_[i].batch, inputs[i].batch);
    CopyInto(inputs_[i].random.drawn, inputs[i].random.drawn);
    // A generator with a new seed draws what a new generator with that seed would.
    at::Generator& own = inputs_[i].random.generator;
    if (own.defined()) own.set_current_seed(inputs[i].random.generator.current_seed());
  }
}

}  // namespace mtrun::trainers
