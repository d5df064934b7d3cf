#include "trainers/optim/clip_grad_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>

namespace mtrun::trainers {
namespace {

TEST(clip, ScalesAllGradientsToTheRequestedNorm) {
  const at::Tensor a = at::tensor({3.0f, 0.0f}), b = torch::tensor({{0.0f}, {4.0f}});
  EXPECT_FLOAT_EQ(ClipGradients({a, b}, 1.0).item<float>(), 5);
  EXPECT_NEAR(a[0].item<float>(), 0.6, 1e-5);
  EXPECT_NEAR(b[1][0].item<float>(), 0.8, 1e-5);
}

TEST(clip, SmallGradientsAreUnchanged) {
  const at::Tensor a = at::tensor({0.3f, 0.4f}), before = a.clone();
  EXPECT_FLOAT_EQ(ClipGradients({a}, 1.0).item<float>(), 0.5);
  EXPECT_TRUE(a.equal(before));
}

TEST(clip, MatchesPyTorch) {
  std::vector<at::Tensor> parameters, gradients;
  for (int i = 1; i < 6; ++i) {
    parameters.push_back(at::zeros({i, 7}).requires_grad_());
    parameters.back().mutable_grad() = at::randn({i, 7});
    gradients.push_back(parameters.back().grad().clone());
  }
  const double want = torch::nn::utils::clip_grad_norm_(parameters, 2.0);
  EXPECT_NEAR(ClipGradients(gradients, 2.0).item<double>(), want, 1e-5 * want);
  for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], parameters[i].grad()));
}

/// LibTorch 2.11 sums squares in one thread, unlike plain sums; another version might not.
TEST(clip, SameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (int i = 0; i < 20; ++i) {  // most sums that differ have the same square root
      const at::Tensor gradient = at::rand({1 << 20}, type);
      std::vector<at::Tensor> norms;
      for (const int threads : {1, 4}) {
        at::set_num_threads(threads);
        norms.push_back(ClipGradients({gradient.clone(), gradient.narrow(0, 0, 70000).clone()}, 1.0));
      }
      EXPECT_TRUE(norms[0].equal(norms[1])) << (norms[0] - norms[1]).item<double>() << toString(type);
      const double want = at::cat({gradient, gradient.narrow(0, 0, 70000)}).norm().item<double>();
      EXPECT_NEAR(norms[0].item<double>(), want, 1e-5 * want);
    }
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace mtrun::trainers
