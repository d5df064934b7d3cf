// What a training program supplies: a network, the loss of a micro-batch, and what its evaluation counts.
// Steps, workers, precision, data and files are not its business. Not thread-safe.
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

/// A micro-batch of the run: all that its random numbers (dropout, noise) may depend on.
struct MicroBatchId {
  uint64_t seed = 0;
  int64_t step = 0, micro_batch = 0;
};

/// What is random in one micro-batch: tensors, so that the pass itself can be captured.
struct RandomInputs {
  std::vector<at::Tensor> drawn;  // Task::Draw
  at::Tensor stream;  // on the batch's device, for what is drawn during the pass; undefined: nothing is
};

class Task {
 public:
  /// What a forward pass in training mode comes to.
  struct Output {
    at::Tensor loss;      // mean over the samples, 0-dimensional, float32 or float64, with gradient
    int64_t correct = 0;  // right predictions, where the task has classes ...
    at::Tensor counted;   // ... unless the device still counts them: then 0-dimensional
  };
  /// What evaluation adds up, on the network's device; sums of parts are the whole.
  struct Sums {
    at::Tensor loss;       // float64 [1]: over the samples, not their mean
    at::Tensor confusion;  // int64 [classes x classes], rows actual
    /// int64 [1]: of the samples those whose class is among the first five guesses; [0] below kManyClasses.
    at::Tensor top5 = {};
  };

  explicit Task(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {}
  virtual ~Task() = default;

  torch::nn::Module& module() const { return *module_; }
  /// Classes that evaluation tells apart; 0: the loss is all there is.
  virtual int classes() const { return 0; }

  /// Random numbers for `n` samples, a function of `micro_batch` alone; on the network's device. Their shapes
  /// depend on `n` alone.
  virtual std::vector<at::Tensor> Draw(int64_t n, const MicroBatchId& micro_batch) const {
    static_cast<void>(n);
    static_cast<void>(micro_batch);
    return {};
  }
  /// Whether Train draws from random.stream besides.
  virtual bool draws_during_pass() const { return false; }
  /// Whether training draws at all, before a pass or during it.
  virtual bool draws() const { return draws_during_pass(); }
  /// Runs under the precision's autocast. On a GPU it does not wait for the device. With --sync_bn a batch
  /// may hold several micro-batches, `random` being the first one's, so a network with batch normalisation
  /// draws no random numbers; and it may be empty: then the loss is 0 and so are the gradients.
  virtual Output Train(const Batch& batch, const RandomInputs& random) = 0;
  /// Adds test samples first, first + 1, ... to `sums`. Random numbers may depend on the sample's number
  /// alone. Runs without gradients, in evaluation mode, under the precision's autocast; on a GPU it does not
  /// wait for the device.
  virtual void Evaluate(const Batch& batch, int64_t first, Sums& sums) = 0;

  /// Scores of the classes for images [n, 3, S, S], float32 or float64 [n, classes]; undefined where the task
  /// has none. Runs without gradients, in evaluation mode.
  virtual at::Tensor Scores(const at::Tensor& images) {
    static_cast<void>(images);
    return {};
  }

  /// Steps between pictures of how the network does; 0: it draws none.
  virtual int64_t picture_every() const { return 0; }
  /// One such picture, a PNG. In evaluation mode.
  virtual absl::Status DrawPicture(const std::string& path) {
    static_cast<void>(path);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace mtrun::trainers
