#include "trainers/step/step_stats.h"

#include <cmath>

namespace mtrun::trainers {
namespace {

std::vector<double> GatheredLimbs(const datasets::SampleSum& samples) {
  const Limbs hash = ToLimbs(samples.hash), count = ToLimbs(static_cast<uint64_t>(samples.count));
  std::vector<double> limbs(hash.begin(), hash.end());
  limbs.insert(limbs.end(), count.begin(), count.end());
  return limbs;
}

}  // namespace

StepStats::StepStats(DataParallel& data_parallel, int64_t passes, bool on_device)
    : data_parallel_(data_parallel),
      on_device_(on_device),
      losses_(at::zeros({passes}, data_parallel.stats().options().dtype(at::kDouble))) {}

void StepStats::Begin(StepVotes votes) {
  votes_ = votes;
  loss_ = 0;
  correct_ = 0;
  gathered_ = {};
  losses_.zero_();
  // Passes on the device add to them.
  if (on_device_) SetStats();
}

void StepStats::Add(size_t pass, const Task::Output& output, double weight) {
  torch::NoGradGuard no_grad;
  const at::Tensor loss = output.loss.detach();
  const auto index = static_cast<int64_t>(pass);
  if (!on_device_) {
    const double value = loss.item<double>();
    losses_.data_ptr<double>()[index] = value;
    loss_ += weight * value;
    correct_ += output.correct;
    return;
  }
  losses_.select(0, index).copy_(loss);
  data_parallel_.stats().select(0, 0).add_(loss, weight);
  const at::Tensor correct = data_parallel_.stats().select(0, 1);
  if (output.counted.defined()) {
    correct.add_(output.counted);
  } else {
    correct.add_(output.correct);
  }
}

void StepStats::End() {
  if (on_device_) {
    data_parallel_.SetStats(GatheredLimbs(gathered_), kHash);
  } else {
    SetStats();
  }
}

void StepStats::SetStats() {
  std::vector<double> stats = {loss_, static_cast<double>(correct_), votes_.leave ? 1.0 : 0.0,
                               votes_.regroup ? 1.0 : 0.0};
  const std::vector<double> limbs = GatheredLimbs(gathered_);
  stats.insert(stats.end(), limbs.begin(), limbs.end());
  data_parallel_.SetStats(stats);
}

datasets::SampleSum StepStats::GatheredOf(const std::vector<double>& stats) {
  const absl::Span<const double> all = stats;
  return {FromLimbs(all.subspan(kHash, kLimbs)),
          static_cast<int64_t>(FromLimbs(all.subspan(kCount, kLimbs)))};
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
