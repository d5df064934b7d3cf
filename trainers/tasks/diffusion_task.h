// The task of denoising diffusion: the network predicts noise or velocity for noisy images, the mean squared
// error is the loss, and DDIM draws pictures. Class-conditional with classifier-free guidance (Ho and
// Salimans 2022), or not. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainers/step/task.h"
#include "trainers/tasks/diffusion_schedule.h"

namespace mtrun::trainers {

struct DiffusionOptions {
  DiffusionSchedule::Kind schedule = DiffusionSchedule::Kind::kLinear;
  DiffusionTarget target = DiffusionTarget::kEpsilon;
  int64_t classes = 0;      // > 0: class-conditional; label `classes` means "no class"
  double label_drop = 0.1;  // fraction of the training samples that lose their label
  double guidance = 0;      // sampling: the output is conditional + guidance * (conditional - unconditional)

  uint64_t seed = 0;          // for evaluation and pictures
  int image_size = 32;        // size of training images and pictures
  int64_t picture_every = 0;  // steps
  int64_t samples = 64;       // images in a picture
  int64_t ddim_steps = 50;
};

class DiffusionTask : public Task {
 public:
  /// (x [n, 3, S, S], t int64 [n], labels int64 [n], undefined without classes) -> [n, 3, S, S].
  using Network = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

  /// Pictures are drawn on the device of `module`'s parameters.
  DiffusionTask(std::shared_ptr<torch::nn::Module> module, Network network, const DiffusionOptions& options);

  /// Returns times int64 [n], noise [n, 3, S, S] and, if there are classes, the labels to drop as bool [n].
  std::vector<at::Tensor> Draw(int64_t n, const MicroBatchId& micro_batch) const override;
  bool draws() const override { return true; }
  Output Train(const Batch& batch, const RandomInputs& random) override;
  void Evaluate(const Batch& batch, int64_t first, Sums& sums) override;
  int64_t picture_every() const override { return options_.picture_every; }
  absl::Status DrawPicture(const std::string& path) override;

  /// Returns `n` images [n, 3, S, S] by DDIM, classes in turn. A pure function of the weights and the seed.
  at::Tensor Sample(int64_t n);

 private:
  struct Draws {
    at::Tensor t;       // int64 [n]
    at::Tensor noise;   // like the images
    at::Tensor labels;  // int64 [n], undefined without classes
  };
  /// Returns the mean of the squared errors, 0-dimensional.
  at::Tensor Loss(const at::Tensor& images, const Draws& draws) const;
  /// Returns the noise for test images number `first` and up, shaped like them.
  at::Tensor EvaluationNoise(const at::Tensor& images, int64_t first) const;
  at::Tensor Guided(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) const;
  at::TensorOptions Where() const;

  const Network network_;
  const DiffusionOptions options_;
  DiffusionSchedule schedule_;
};

}  // namespace mtrun::trainers
