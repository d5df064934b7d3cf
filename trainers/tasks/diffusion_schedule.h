// Denoising diffusion (Ho et al. 2020): the noise of an image at each time step, the network's training
// target, and sampling. Times are 0 .. steps-1, images [n, C, H, W] in [-1, 1]. Pure functions of their
// arguments; tables are on the CPU until To(device).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// Returns cos^2((t/steps + s) / (1 + s) * pi/2), s = 0.008 (Nichol and Dhariwal 2021).
double CosineAlphaBar(double t, int64_t steps = 1000);

/// The network's output: the noise, or the velocity sqrt(ab) noise - sqrt(1 - ab) x0 (Salimans and Ho 2022).
enum class DiffusionTarget { kEpsilon, kVelocity };
/// Parses "epsilon" or "v".
absl::StatusOr<DiffusionTarget> ParseDiffusionTarget(std::string_view text);

class DiffusionSchedule {
 public:
  enum class Kind { kLinear, kCosine };

  /// kLinear: beta from 1e-4 to 0.02. kCosine: alpha_bar by CosineAlphaBar.
  explicit DiffusionSchedule(Kind kind, int64_t steps = 1000);

  int64_t steps() const { return static_cast<int64_t>(beta_.size()); }
  double beta(int64_t t) const { return beta_[t]; }
  /// Returns the part of an image's variance that is left at time t; 1 if t = -1.
  double alpha_bar(int64_t t) const { return t < 0 ? 1.0 : alpha_bar_[t]; }

  /// Moves the table to the device of AddNoise's and Target's tensors.
  void To(at::Device device) { table_ = table_.to(device); }
  /// Returns sqrt(ab) x0 + sqrt(1 - ab) noise, each row at its own time; `t` int64 [n].
  at::Tensor AddNoise(const at::Tensor& x0, const at::Tensor& t, const at::Tensor& noise) const;
  /// Returns the output that the network should give for AddNoise's result.
  at::Tensor Target(DiffusionTarget target, const at::Tensor& x0, const at::Tensor& t,
                    const at::Tensor& noise) const;

 private:
  at::Tensor AlphaBarOf(const at::Tensor& t, const at::Tensor& like) const;

  std::vector<double> beta_, alpha_bar_;
  at::Tensor table_;  // alpha_bar_, float64
};

/// Parses "linear" or "cosine".
absl::StatusOr<DiffusionSchedule::Kind> ParseDiffusionKind(std::string_view text);

/// Draws samples from a network that was trained for `target`.
class DiffusionSampler {
 public:
  /// (x [n, C, H, W], t int64 [n]) -> the network's output.
  using Network = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

  /// `clip`: keeps the estimate of the image within [-1, 1] in every step.
  DiffusionSampler(const DiffusionSchedule& schedule, DiffusionTarget target, Network network, bool clip)
      : schedule_(schedule), target_(target), network_(std::move(network)), clip_(clip) {}

  /// Returns `count` >= 2 times spread over all steps, downwards: round(i * (steps - 1) / (count - 1)).
  static std::vector<int64_t> DdimTimes(int64_t steps, int64_t count);
  /// Samples by DDIM with eta 0 (Song et al. 2021) from pure noise `x` in `count` network calls.
  at::Tensor Ddim(at::Tensor x, int64_t count) const;
  /// Samples with variance beta (ancestral sampling) from time `first` down to 0; noise(t) is like x, for t >
  /// 0.
  at::Tensor Ddpm(at::Tensor x, int64_t first, const std::function<at::Tensor(int64_t)>& noise) const;

 private:
  struct Estimate {
    at::Tensor x0, epsilon;
  };
  Estimate EstimateAt(const at::Tensor& x, int64_t t) const;

  const DiffusionSchedule& schedule_;
  const DiffusionTarget target_;
  const Network network_;
  const bool clip_;
};

}  // namespace mtrun::trainers
