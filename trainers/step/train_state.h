// State that training changes from step to step: weights, running statistics, the optimizer's state, the loss
// scale and the average of the weights. All of it can be listed, and set by copying into the tensors. It does
// not depend on membership: gradients are bound to it once a generation. Not thread-safe.
//
// A step is: BeginStep; forward, and backward from RootGradient, of every own micro-batch; the sums over the
// workers of gradients and statistics(); Apply.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainers/models/batch_norm.h"
#include "trainers/optim/ema.h"
#include "trainers/optim/grad_scaler.h"
#include "trainers/optim/optimizer.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

class TrainState {
 public:
  struct Options {
    OptimizerOptions optimizer = {};
    double clip_norm = 0;                                  // 0: no clipping
    double ema_decay = 0;                                  // 0: no average is kept
    std::optional<GradScaler::Options> loss_scaling = {};  // for fp16
  };

  /// `module` is on its device, in its dtype and memory format, and must outlive this. Parameters that
  /// require gradients are trained.
  TrainState(torch::nn::Module& module, const Options& options);
  TrainState(const TrainState&) = delete;

  const std::vector<at::Tensor>& trained() const { return trained_; }
  /// Binds gradients[i] to trained()[i]. Called before the first step and whenever gradients are reallocated.
  void BindGradients(const std::vector<at::Tensor>& gradients);

  /// Returns parameters and buffers by PyTorch's names, as aliases.
  NamedTensors Weights() const { return StateDict(module_); }
  /// Returns all else as aliases: `optimizer/<parameter>.<exp_avg, ...>`, `ema/<parameter>`, `scaler/<...>`.
  NamedTensors Rest() const;
  /// Returns the averaged weights with the buffers, as a model file has them. Empty if no average is kept.
  NamedTensors AveragedWeights() const;
  /// Restarts the average from the weights, after these have been replaced.
  void RestartAverage();

  void BeginStep() { statistics_.BeginStep(); }
  /// Returns the gradient that backward starts from for a loss of weight n_micro_batch / N.
  at::Tensor RootGradient(const at::Tensor& loss, double weight) const;
  /// Returns sums of batch normalisation that are to be added over the workers. Empty without such layers.
  const at::Tensor& statistics() const { return statistics_.sums(); }
  bool scales_loss() const { return scaler_.has_value(); }
  /// Unscales, clips, updates everything. `finite`: whether the step's loss and all gradients are. With loss
  /// scaling, a step that is not finite changes only the scale, and this returns false. `repeat` does the
  /// update, which is the same device operations each time after KeepRateOnDevice.
  using Repeat = std::function<void(const std::function<void()>& update)>;
  bool Apply(
      double learning_rate, bool finite, const Repeat& repeat = [](const auto& update) { update(); });
  /// Returns the L2 norm of the last step's gradients before clipping. Waits for the device.
  double GradientNorm() const;
  /// Returns the loss scale, or 0 if the loss is not scaled. Waits for the device.
  double LossScale() const;
  void KeepRateOnDevice() { optimizer_->KeepRateOnDevice(); }

  /// Makes the network compute with the average, if there is one, while this object exists.
  class Averaged {
   public:
    explicit Averaged(TrainState& state) {
      if (state.ema_) scope_.emplace(*state.ema_);
    }

   private:
    std::optional<Ema::Scope> scope_;
  };

 private:
  void Update();

  torch::nn::Module& module_;
  const Options options_;
  models::RunningStatistics statistics_;
  std::vector<at::Tensor> trained_;
  std::vector<at::Tensor> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<Ema> ema_;
  at::Tensor clipped_norm_;  // norm at the last update, before clipping; undefined if not clipped
};

/// Returns the parameters that require gradients, in the module's order.
std::vector<at::Tensor> TrainedParameters(const torch::nn::Module& module);

}  // namespace mtrun::trainers
