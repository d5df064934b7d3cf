// The parts of an image classifier that a training program supplies; Classify makes a Task of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainers/input/mixing.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// A network: its module (parameters, buffers, mode) and its forward pass [n, 3, S, S] -> logits [n,
/// classes].
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  /// Sets the stream of a network's dropout in the next forward pass (trainers/random/draw.h).
  std::function<void(at::Tensor)> set_stream = {};
  /// The part that is frozen, as in Task::features; `forward` also takes its output.
  struct Frozen {
    int64_t width = 0;
    std::function<at::Tensor(const at::Tensor&)> features = {};
  };
  Frozen frozen = {};
};

template <typename Net>
Model AsModel(std::shared_ptr<Net> net) {
  return {net, [net](const at::Tensor& images) { return net->forward(images); }, {}};
}

/// (logits [n, classes], labels int64 [n]) -> mean loss, 0-dimensional.
using MeanLoss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

at::Tensor MeanCrossEntropy(const at::Tensor& logits, const at::Tensor& labels);

/// What a classifier's training does beside the plain mean cross-entropy.
struct ClassifierOptions {
  Mixing mixing = {};
  /// The label has probability 1 - smoothing + smoothing / classes, the others smoothing / classes (Szegedy
  /// et al. 2016).
  double smoothing = 0;
  /// Factor of each class in the loss, as of PyTorch's CrossEntropyLoss(weight, reduction="sum"), whose sum
  /// is divided by the number of images: so the loss does not depend on which images share a micro-batch.
  /// Empty: all are 1.
  std::vector<double> class_weights = {};
};
MeanLoss LossOf(const ClassifierOptions& options, const at::Device& device);

/// Returns images / (classes that have images * images of the class), as scikit-learn's
/// class_weight="balanced", and 0 for a class without images. Their mean over the images is 1.
std::vector<double> BalancedWeights(const std::vector<int64_t>& images_of_class);

/// Computes loss, right predictions and a confusion matrix of any network. Evaluation uses MeanCrossEntropy.
class ClassifierTask : public Task {
 public:
  /// `loss`: used in training, in which `options` are contained (LossOf). It must be linear in the
  /// distribution over the classes that a label stands for, because the loss of a mixed image is the mixture
  /// of the losses.
  ClassifierTask(Model model, MeanLoss loss, int classes, const ClassifierOptions& options = {});

  int classes() const override { return classes_; }
  at::Tensor Scores(const at::Tensor& images) override;
  bool draws_during_pass() const override { return model_.set_stream != nullptr; }
  bool draws() const override { return draws_during_pass() || mixes(); }
  bool mixes() const override { return mixing_.any(); }
  bool weighs_classes() const override { return weighs_classes_; }
  std::vector<at::Tensor> Draw(int64_t n, const MicroBatchId& micro_batch) const override;
  int64_t features() const override { return model_.frozen.width; }
  at::Tensor Features(const at::Tensor& images) override { return model_.frozen.features(images); }
  Output Train(const Batch& batch, const RandomInputs& random) override;
  void Evaluate(const Batch& batch, int64_t first, Sums& sums) override;

 private:
  const Model model_;
  const MeanLoss loss_;
  const int classes_;
  const Mixing mixing_;
  const bool weighs_classes_;
};

/// Returns the task of most classifiers. `device`: where it will train.
std::unique_ptr<Task> Classify(Model model, int64_t classes, const ClassifierOptions& options = {},
                               const at::Device& device = at::kCPU);

}  // namespace mtrun::trainers
