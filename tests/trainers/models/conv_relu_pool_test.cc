#include "trainers/models/conv_relu_pool.h"

#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainers/models/conv_kernels.h"

namespace mtrun::models {
namespace {

at::Tensor ReferencePool(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return at::max_pool2d(at::relu(at::conv2d(input, weight, bias)), 2);
}

struct Case {
  int64_t images, channels, height, width, filters;
  bool input_gradient;
};
/// Covers cnnA's two layers, odd and tiny sizes, more channels than the kernels support, and an input
/// gradient that they cannot compute.
const Case kCases[] = {{2, 3, 32, 32, 4, false}, {3, 4, 15, 15, 8, true}, {1, 4, 7, 9, 4, true},
                       {5, 8, 12, 33, 16, true}, {2, 4, 4, 4, 4, true},   {2, 32, 8, 8, 8, true},
                       {2, 3, 9, 9, 4, true},    {2, 4, 8, 8, 6, true},   {0, 4, 8, 8, 4, false}};

void ExpectClose(const at::Tensor& got, const at::Tensor& want, const char* what) {
  const double tolerance = want.scalar_type() == at::kDouble ? 1e-13 : 1e-5;
  ASSERT_EQ(got.sizes().vec(), want.sizes().vec()) << what;
  EXPECT_TRUE(got.allclose(want, tolerance, tolerance)) << what << ": off by " << (got - want).abs().max();
}

TEST(ConvReluPool, EqualsThreeOperationsForwardAndBackward) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.images << " images " << c.channels << "x" << c.height << "x"
                                      << c.width << " to " << c.filters << " in " << c10::toString(dtype));
      const auto random = [&](at::IntArrayRef shape) { return at::rand(shape, generator, dtype) - 0.5; };
      const std::vector<at::Tensor> values = {random({c.images, c.channels, c.height, c.width}),
                                              random({c.filters, c.channels, 3, 3}), random({c.filters})};
      std::vector<at::Tensor> ours, theirs;
      for (size_t i = 0; i < 3; ++i) {
        ours.push_back(values[i].clone().requires_grad_(i > 0 || c.input_gradient));
        theirs.push_back(values[i].clone().requires_grad_(i > 0 || c.input_gradient));
      }
      const at::Tensor got = ConvReluPool(ours[0], ours[1], ours[2]);
      const at::Tensor want = ReferencePool(theirs[0], theirs[1], theirs[2]);
      ExpectClose(got, want, "output");
      const at::Tensor gradient = random(want.sizes());
      got.backward(gradient);
      want.backward(gradient);
      ExpectClose(ours[1].grad(), theirs[1].grad(), "gradient of weight");
      ExpectClose(ours[2].grad(), theirs[2].grad(), "gradient of bias");
      if (c.input_gradient) ExpectClose(ours[0].grad(), theirs[0].grad(), "gradient of input");
    }
  }
}

/// Flat image regions give equal sums: the first of the four gets the gradient, as in PyTorch.
TEST(ConvReluPool, FirstOfEqualValuesGetsTheGradient) {
  const at::Tensor weight = at::zeros({4, 4, 3, 3});
  weight.select(2, 1).select(2, 1).fill_(1);
  const at::Tensor bias = at::zeros({4});
  for (const bool kernels : {true, false}) {
    const at::Tensor input = at::ones({1, 4, 6, 6}).requires_grad_();
    const at::Tensor w = weight.clone().requires_grad_();
    (kernels ? ConvReluPool(input, w, bias) : ReferencePool(input, w, bias)).sum().backward();
    EXPECT_EQ(input.grad()[0][0][1][1].item<float>(), 4) << kernels;
    EXPECT_EQ(input.grad()[0][0][1][2].item<float>(), 0) << kernels;
    EXPECT_EQ(input.grad()[0][0][2][1].item<float>(), 0) << kernels;
  }
}

TEST(ConvReluPool, NanIsNotHidden) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t y = 1; y <= 2; ++y) {
    for (int64_t x = 1; x <= 2; ++x) {
      at::Tensor input = at::zeros({1, 4, 4, 4});
      input[0][2][y][x] = nan;
      const at::Tensor out = ConvReluPool(input, at::ones({4, 4, 3, 3}), at::zeros({4}));
      EXPECT_TRUE(out.isnan().all().item<bool>()) << y << ", " << x;
    }
  }
}

TEST(ConvKernels, ReportWhetherTheyRunHere) {
#if !defined(__x86_64__)
  EXPECT_TRUE(ConvKernelsRunHere());
#else
  EXPECT_EQ(ConvKernelsRunHere(), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#endif
}

}  // namespace
}  // namespace mtrun::models
