#include "trainers/tasks/diffusion_schedule.h"

#include <cmath>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

constexpr double kFirstBeta = 1e-4, kLastBeta = 0.02;

std::vector<double> LinearBeta(int64_t steps) {
  const at::Tensor beta = at::linspace(kFirstBeta, kLastBeta, steps, at::kDouble);
  return {beta.data_ptr<double>(), beta.data_ptr<double>() + steps};
}

std::vector<double> CosineBeta(int64_t steps) {
  std::vector<double> beta(steps);
  for (int64_t t = 0; t < steps; ++t) {
    const double before = t == 0 ? 1.0 : CosineAlphaBar(static_cast<double>(t - 1), steps);
    beta[t] = 1 - CosineAlphaBar(static_cast<double>(t), steps) / before;
  }
  return beta;
}

}  // namespace

double CosineAlphaBar(double t, int64_t steps) {
  const double angle = (t / static_cast<double>(steps) + 0.008) / 1.008 * std::numbers::pi / 2;
  return std::cos(angle) * std::cos(angle);
}

absl::StatusOr<DiffusionTarget> ParseDiffusionTarget(std::string_view text) {
  if (text == "epsilon") return DiffusionTarget::kEpsilon;
  if (text == "v") return DiffusionTarget::kVelocity;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown prediction \"", std::string(text), "\": epsilon or v"));
}

absl::StatusOr<DiffusionSchedule::Kind> ParseDiffusionKind(std::string_view text) {
  if (text == "linear") return DiffusionSchedule::Kind::kLinear;
  if (text == "cosine") return DiffusionSchedule::Kind::kCosine;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown noise schedule \"", std::string(text), "\": linear or cosine"));
}

DiffusionSchedule::DiffusionSchedule(Kind kind, int64_t steps)
    : beta_(kind == Kind::kLinear ? LinearBeta(steps) : CosineBeta(steps)) {
  double product = 1;
  for (const double beta : beta_) alpha_bar_.push_back(product *= 1 - beta);
  table_ = at::tensor(alpha_bar_, at::kDouble);
}

at::Tensor DiffusionSchedule::AlphaBarOf(const at::Tensor& t, const at::Tensor& like) const {
  return table_.index_select(0, t).to(like.scalar_type()).view({-1, 1, 1, 1});
}

at::Tensor DiffusionSchedule::AddNoise(const at::Tensor& x0, const at::Tensor& t,
                                       const at::Tensor& noise) const {
  const at::Tensor ab = AlphaBarOf(t, x0);
  return ab.sqrt() * x0 + (1 - ab).sqrt() * noise;
}

at::Tensor DiffusionSchedule::Target(DiffusionTarget target, const at::Tensor& x0, const at::Tensor& t,
                                     const at::Tensor& noise) const {
  if (target == DiffusionTarget::kEpsilon) return noise;
  const at::Tensor ab = AlphaBarOf(t, x0);
  return ab.sqrt() * noise - (1 - ab).sqrt() * x0;
}

DiffusionSampler::Estimate DiffusionSampler::EstimateAt(const at::Tensor& x, int64_t t) const {
  const at::Tensor output =
      network_(x, at::full({x.size(0)}, t, x.options().dtype(at::kLong))).to(x.scalar_type());
  const double ab = schedule_.alpha_bar(t);
  const double signal = std::sqrt(ab), noise = std::sqrt(1 - ab);
  Estimate estimate;
  if (target_ == DiffusionTarget::kEpsilon) {
    estimate = {(x - noise * output) / signal, output};
  } else {
    estimate = {signal * x - noise * output, noise * x + signal * output};
  }
  if (clip_) {
    estimate.x0 = estimate.x0.clamp(-1, 1);
    estimate.epsilon = (x - signal * estimate.x0) / noise;
  }
  return estimate;
}

std::vector<int64_t> DiffusionSampler::DdimTimes(int64_t steps, int64_t count) {
  MT_CHECK(count >= 2 && count <= steps) << count << " of " << steps << " steps";
  std::vector<int64_t> times;
  for (int64_t i = count - 1; i >= 0; --i) {
    // llrint rounds halves to even, as Python does.
    times.push_back(std::llrint(static_cast<double>(i * (steps - 1)) / static_cast<double>(count - 1)));
  }
  return times;
}

at::Tensor DiffusionSampler::Ddim(at::Tensor x, int64_t count) const {
  torch::NoGradGuard no_grad;
  const std::vector<int64_t> times = DdimTimes(schedule_.steps(), count);
  for (size_t k = 0; k < times.size(); ++k) {
    const Estimate estimate = EstimateAt(x, times[k]);
    const double before = schedule_.alpha_bar(k + 1 < times.size() ? times[k + 1] : -1);
    x = std::sqrt(before) * estimate.x0 + std::sqrt(1 - before) * estimate.epsilon;
  }
  return x;
}

at::Tensor DiffusionSampler::Ddpm(at::Tensor x, int64_t first,
                                  const std::function<at::Tensor(int64_t)>& noise) const {
  torch::NoGradGuard no_grad;
  for (int64_t t = first; t >= 0; --t) {
    const double beta = schedule_.beta(t);
    const Estimate estimate = EstimateAt(x, t);
    x = (x - beta / std::sqrt(1 - schedule_.alpha_bar(t)) * estimate.epsilon) / std::sqrt(1 - beta);
    if (t > 0) x = x + std::sqrt(beta) * noise(t);
  }
  return x;
}

}  // namespace mtrun::trainers
