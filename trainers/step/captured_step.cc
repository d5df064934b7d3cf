#include "trainers/step/captured_step.h"

#include <stdexcept>
#include <string>

#include "base/status_macros.h"
#include "trainers/device/torch_status.h"

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
  for (const PassInputs& pass : inputs) {
    const at::Tensor& stream = pass.random.stream;
    inputs_.push_back({CopiesOf(pass.batch),
                       {CopiesOf(pass.random.drawn), stream.defined() ? stream.clone() : at::Tensor()}});
  }
  graph_ = make_();
  const absl::Status captured = TorchStatus("", [&] { graph_->Capture([this, work] { work(inputs_); }); });
  if (captured.ok()) return;
  graph_.reset();
  // LibTorch's message says what CUDA forbids, but not what to do.
  throw std::runtime_error("a step of this program cannot be captured as a CUDA graph; leave out --graph" +
                           std::string(captured.message()));
}

void CapturedStep::Take(const std::vector<PassInputs>& inputs) {
  torch::NoGradGuard no_grad;
  MT_CHECK(inputs.size() == inputs_.size()) << inputs.size() << " passes instead of " << inputs_.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    CopyInto(inputs_[i].batch, inputs[i].batch);
    CopyInto(inputs_[i].random.drawn, inputs[i].random.drawn);
    if (inputs_[i].random.stream.defined()) inputs_[i].random.stream.copy_(inputs[i].random.stream);
  }
}

}  // namespace mtrun::trainers
