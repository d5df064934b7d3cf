// Batch normalisation whose running statistics do not depend on how a step's samples are split over workers.
// PyTorch moves them once a forward pass; here each pass only adds its count-weighted mean and variance to a
// sum, and once a step RunningStatistics moves the buffers by the mean over all micro-batches of all workers.
// Not thread-safe.
//
// A step is: BeginStep; forward of every own micro-batch; the sum of sums() over the workers; Move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Of [n, C, H, W].
int64_t ValuesPerChannel(const at::Tensor& x);

/// What one forward pass of a layer comes to.
struct Normalised {
  at::Tensor output;
  at::Tensor statistics;  // [2, C]: mean and unbiased variance, without gradient
  bool known = true;      // false: of one value a channel, which has no variance; the output is the bias
};

/// Another way to normalise in training mode than by the pass's own samples (trainers::SyncBatchNorm).
class BatchNormScope {
 public:
  virtual ~BatchNormScope() = default;
  virtual Normalised Normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               double eps) = 0;
};

/// [n, C, H, W] -> the same shape. Names and defaults are torch.nn.BatchNorm2d's (weight 1, bias 0, eps 1e-5,
/// momentum 0.1).
class BatchNorm : public torch::nn::Module {
 public:
  static constexpr double kEps = 1e-5;
  static constexpr double kMomentum = 0.1;

  explicit BatchNorm(int64_t channels);

  /// Training mode: by the mean and variance of `x` alone, or of the scope. Evaluation: by the running
  /// statistics.
  at::Tensor forward(const at::Tensor& x);
  /// Null: each pass by itself, as when nobody else holds the scope any more: it ends with its generation.
  void SetScope(const std::shared_ptr<BatchNormScope>& scope) { scope_ = scope; }

 private:
  friend class RunningStatistics;
  Normalised NormaliseAlone(const at::Tensor& x) const;

  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  std::weak_ptr<BatchNormScope> scope_;
  at::Tensor sum_;    // float64 [2, C], of statistics times samples; undefined: nobody collects
  at::Tensor count_;  // float64 [1], samples
};

/// Every BatchNorm of a module tree, in the order of named_modules().
std::vector<std::shared_ptr<BatchNorm>> BatchNormsOf(const torch::nn::Module& model);

class RunningStatistics {
 public:
  /// `model` is already on its device and in its dtype: its running statistics become views of one flat
  /// tensor that stay. Whoever keeps aliases of the buffers (a state dict) takes them after this.
  explicit RunningStatistics(const torch::nn::Module& model);

  /// A model without batch normalisation: the other calls do nothing and sums() is empty.
  bool empty() const { return layers_.empty(); }
  void BeginStep();
  /// float64 [n], what the own micro-batches came to; plain addition over workers is right.
  const at::Tensor& sums() const { return sums_; }
  /// running += momentum * (mean over the samples in sums() - running), once a step. `skip`: where given and
  /// not zero (a step that fp16 skips), the buffers stay; read on the device.
  void Move(const at::Tensor& skip = {});

 private:
  const std::vector<std::shared_ptr<BatchNorm>> layers_;
  at::Tensor running_;   // flat [values]: mean and variance of each layer
  at::Tensor tracked_;   // int64 [layers]
  at::Tensor sums_;      // [values + layers]: weighted statistics, then counts
  at::Tensor layer_of_;  // int64 [values]: index of the layer a value belongs to
};

}  // namespace mtrun::models
