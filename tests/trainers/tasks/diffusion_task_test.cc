#include "trainers/tasks/diffusion_task.h"

#include <memory>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

struct OneWeight : torch::nn::Module {
  OneWeight() { register_parameter("weight", at::zeros({1})); }
};

/// Returns a task whose network outputs zeros, so the loss is the mean square of the noise.
DiffusionTask SilentTask() {
  const auto silent = [](const at::Tensor& x, const at::Tensor&, const at::Tensor&) {
    return at::zeros_like(x);
  };
  return {std::make_shared<OneWeight>(), silent, {.seed = 3, .image_size = 5}};
}

double Evaluated(DiffusionTask& task, int64_t first, int64_t n) {
  Task::Sums sums{at::zeros({1}, at::kDouble), {}};
  task.Evaluate({at::zeros({n, 3, 5, 5}), at::zeros({n}, at::kLong)}, first, sums);
  return sums.loss.item<double>();
}

TEST(DiffusionTask, NoiseOfATestImageDoesNotDependOnItsBatch) {
  DiffusionTask task = SilentTask();
  double alone = 0;
  for (int64_t k = 1020; k < 1030; ++k) alone += Evaluated(task, k, 1);
  EXPECT_NEAR(Evaluated(task, 1020, 10), alone, 1e-5 * alone);
  EXPECT_NE(Evaluated(task, 1023, 1), Evaluated(task, 1024, 1));
}

TEST(DiffusionTask, AnyTestSetHasEnoughNoise) {
  DiffusionTask task = SilentTask();
  EXPECT_GT(Evaluated(task, int64_t{1} << 33, 2), 0);
}

}  // namespace
}  // namespace mtrun::trainers
