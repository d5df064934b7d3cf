// Batch normalisation whose running statistics do not depend on how a step's samples are divided among
// workers. PyTorch moves them in every forward pass. Here each pass only adds its count-weighted mean and
// variance to a sum, and RunningStatistics moves the buffers once a step by the mean over all micro-batches
// of all workers. Not thread-safe.
//
// A step is: BeginStep; forward of every own micro-batch; the sum of sums() over the workers; Move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// `x`: [n, C, H, W].
int64_t ValuesPerChannel(const at::Tensor& x);

/// Result of one forward pass of a layer.
struct Normalised {
  at::Tensor output;
  at::Tensor statistics;  // [2, C]: mean and unbiased variance, without gradient
  bool known = true;      // false: one value a channel has no variance; the output is the bias
};

/// Replaces normalisation by the pass's own samples in training mode (trainers::SyncBatchNorm).
class BatchNormScope {
 public:
  virtual ~BatchNormScope() = default;
  virtual Normalised Normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               double eps) = 0;
};

/// Maps [n, C, H, W] to the same shape, with torch.nn.BatchNorm2d's names and defaults (weight 1, bias 0, eps
/// 1e-5, momentum 0.1).
class BatchNorm : public torch::nn::Module {
 public:
  static constexpr double kEps = 1e-5;
  static constexpr double kMomentum = 0.1;

  explicit BatchNorm(int64_t channels);

  /// Normalises by the mean and variance of `x` or of the scope. In evaluation mode it uses the running
  /// statistics.
  at::Tensor forward(const at::Tensor& x);
  /// Null: each pass is normalised alone. The same holds after the scope's owner has released it, because a
  /// scope ends with its generation.
  void SetScope(const std::shared_ptr<BatchNormScope>& scope) { scope_ = scope; }

 private:
  friend class RunningStatistics;
  Normalised NormaliseAlone(const at::Tensor& x) const;

  at::Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
  std::weak_ptr<BatchNormScope> scope_;
  at::Tensor sum_;    // float64 [2, C], statistics times samples; undefined: not collected
  at::Tensor count_;  // float64 [1], samples
};

/// Returns every BatchNorm of a module tree, in the order of named_modules().
std::vector<std::shared_ptr<BatchNorm>> BatchNormsOf(const torch::nn::Module& model);

class RunningStatistics {
 public:
  /// `model` is already on its device and in its dtype. Its running statistics become permanent views of one
  /// flat tensor, so take aliases of the buffers (a state dict) after this.
  explicit RunningStatistics(const torch::nn::Module& model);

  /// Returns true if the model has no batch normalisation: the other calls do nothing and sums() is empty.
  bool empty() const { return layers_.empty(); }
  void BeginStep();
  /// Returns the own micro-batches' sums, float64 [n], which can be added over workers.
  const at::Tensor& sums() const { return sums_; }
  /// Computes running += momentum * (mean over the samples in sums() - running), once a step. Not called for a
  /// step that fp16 skips: the buffers stay.
  void Move();

 private:
  const std::vector<std::shared_ptr<BatchNorm>> layers_;
  at::Tensor running_;   // flat [values]: mean and variance of each layer
  at::Tensor tracked_;   // int64 [layers]
  at::Tensor sums_;      // [values + layers]: weighted statistics, then counts
  at::Tensor layer_of_;  // int64 [values]: index of the layer a value belongs to
};

}  // namespace mtrun::models
