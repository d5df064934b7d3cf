#include "trainers/step/step_stats.h"

#include <cmath>

namespace mtrun::trainers {

StepStats::StepStats(at::Device device, int64_t passes, bool on_device)
    : on_device_(on_device),
      losses_(at::zeros({passes}, at::TensorOptions(at::kDouble).device(device))),
      sums_(at::zeros({kSums}, losses_.options())) {}

void StepStats::Begin(StepVotes votes, const StepTimes& last) {
  record_ = {};
  record_.Vote(votes);
  record_.last = last;
  losses_.zero_();
  if (on_device_) sums_.zero_();
}

void StepStats::Add(size_t pass, const Task::Output& output, double weight) {
  torch::NoGradGuard no_grad;
  const at::Tensor loss = output.loss.detach();
  const auto index = static_cast<int64_t>(pass);
  if (!on_device_) {
    const double value = loss.item<double>();
    losses_.data_ptr<double>()[index] = value;
    record_.loss.Add(weight * value);
    record_.correct += output.correct;
    return;
  }
  losses_.select(0, index).copy_(loss);
  sums_.select(0, 0).add_(losses_.select(0, index), weight);
  const at::Tensor correct = sums_.select(0, 1);
  if (output.counted.defined()) {
    correct.add_(output.counted);
  } else {
    correct.add_(output.correct);
  }
}

StepSums StepStats::Own(const at::Tensor& read) const {
  StepSums own = record_;
  if (on_device_) {
    own.loss = ExactSum(read[0].item<double>());
    own.correct = std::llround(read[1].item<double>());
  }
  return own;
}

std::vector<size_t> StepStats::NotFinite() const {
  const at::Tensor losses = losses_.cpu();
  std::vector<size_t> passes;
  for (int64_t i = 0; i < losses.numel(); ++i) {
    if (!std::isfinite(losses.data_ptr<double>()[i])) passes.push_back(static_cast<size_t>(i));
  }
  return passes;
}

}  // namespace mtrun::trainers
