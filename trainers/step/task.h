// A training program's network, the loss of a micro-batch, and what its evaluation counts. Steps, workers,
// precision, data and files are handled elsewhere. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "trainers/input/batch.h"

namespace mtrun::trainers {

/// A micro-batch of the run. Its random numbers (dropout, noise) depend on nothing else.
struct MicroBatchId {
  uint64_t seed = 0;
  int64_t step = 0, micro_batch = 0;
};

/// Random inputs of one micro-batch. They are tensors, so that the pass itself can be captured.
struct RandomInputs {
  std::vector<at::Tensor> drawn;  // from Task::Draw
  at::Tensor stream;  // on the batch's device, for draws during the pass; undefined: there are none
};

class Task {
 public:
  /// Result of a forward pass in training mode.
  struct Output {
    at::Tensor loss;      // mean over the samples, 0-dimensional, float32 or float64, with gradient
    int64_t correct = 0;  // right predictions, if the task has classes ...
    at::Tensor counted;   // ... unless the device still counts them: then a 0-dimensional tensor
  };
  /// Sums of an evaluation, on the network's device. Sums of parts add up to the whole.
  struct Sums {
    at::Tensor loss;       // float64 [1]: sum over the samples, not their mean
    at::Tensor confusion;  // int64 [classes x classes], rows actual
    /// int64 [1]: samples whose class is among the first five guesses; [0] below kManyClasses.
    at::Tensor top5 = {};
    /// Of each batch, float64 [3, n]: labels, most probable classes, their probabilities. Empty without
    /// classes.
    std::vector<at::Tensor> guesses = {};
  };

  explicit Task(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}
  virtual ~Task() = default;

  torch::nn::Module& module() const { return *module_; }
  /// Returns the number of classes that evaluation distinguishes. 0: it only has a loss.
  virtual int classes() const { return 0; }

  /// Draws random numbers for `n` samples, as a function of `micro_batch`, on the network's device. Their
  /// shapes depend only on `n`.
  virtual std::vector<at::Tensor> Draw(int64_t /*n*/, const MicroBatchId& /*micro_batch*/) const {
    return {};
  }
  /// Returns whether Train also draws from random.stream.
  virtual bool draws_during_pass() const { return false; }
  /// Returns whether training draws at all, before a pass or during it.
  virtual bool draws() const { return draws_during_pass(); }
  /// Returns whether the loss weighs classes, as --class_weights says.
  virtual bool weighs_classes() const { return false; }
  /// Returns whether training mixes images and their labels as --mixup and --cutmix say.
  virtual bool mixes() const { return false; }
  /// Returns the number of values that a frozen part of the network computes from an image, if they may be
  /// kept: they depend on nothing that changes during the run. 0: there is no such part. Train and Evaluate
  /// also take these values [n, features()] in place of images.
  virtual int64_t features() const { return 0; }
  /// Computes them from images [n, 3, S, S]. REQUIRES: features() > 0.
  virtual at::Tensor Features(const at::Tensor& images) { return images; }
  /// Computes a forward pass under the precision's autocast. On a GPU it does not wait for the device. With
  /// --sync_bn a batch can hold several micro-batches and `random` is the first one's, so a network with
  /// batch normalisation draws no random numbers. If the batch is empty, the loss and the gradients are 0.
  virtual Output Train(const Batch& batch, const RandomInputs& random) = 0;
  /// Adds test samples first, first + 1, ... to `sums`. Random numbers may depend only on the sample's
  /// number. Runs without gradients, in evaluation mode, under the precision's autocast. Does not wait for a
  /// GPU.
  virtual void Evaluate(const Batch& batch, int64_t first, Sums& sums) = 0;

  /// Returns scores of the classes for images [n, 3, S, S], float32 or float64 [n, classes], or an undefined
  /// tensor if the task has no classes. Runs without gradients, in evaluation mode.
  virtual at::Tensor Scores(const at::Tensor& /*images*/) { return {}; }

  /// Returns the steps between pictures of the network's progress, or 0 if it draws none.
  virtual int64_t picture_every() const { return 0; }
  /// Draws such a picture, a PNG. Runs in evaluation mode.
  virtual absl::Status DrawPicture(const std::string& /*path*/) { return absl::OkStatus(); }

 private:
  const std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace mtrun::trainers
