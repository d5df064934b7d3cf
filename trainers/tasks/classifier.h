// The parts of an image classifier that a training program supplies; Classify makes a Task of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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
/// Returns the cross entropy against the label with probability 1 - smoothing + smoothing / classes and the
/// others with smoothing / classes (Szegedy et al. 2016).
MeanLoss SmoothedCrossEntropy(double smoothing);

/// Computes loss, right predictions and a confusion matrix of any network. Evaluation uses MeanCrossEntropy.
class ClassifierTask : public Task {
 public:
  /// `loss`: used in training. It must be linear in the distribution over the classes that a label stands for,
  /// because the loss of a mixed image is the mixture of the losses.
  ClassifierTask(Model model, MeanLoss loss, int classes, const Mixing& mixing = {});

  int classes() const override { return classes_; }
  at::Tensor Scores(const at::Tensor& images) override;
  bool draws_during_pass() const override { return model_.set_stream != nullptr; }
  bool draws() const override { return draws_during_pass() || mixes(); }
  bool mixes() const override { return mixing_.any(); }
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
};

/// Returns the task of most classifiers; `mixing` and `smoothing` apply to images and labels in training.
std::unique_ptr<Task> Classify(Model model, int64_t classes, const Mixing& mixing = {}, double smoothing = 0);

}  // namespace mtrun::trainers
