#include "trainers/random/draw.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "trainers/random/device_draw.h"

namespace mtrun::trainers {
namespace {

at::Tensor DrawStream(uint64_t seed = 1) { return OnDevice(RandomStream(seed, 2, 3, "a"), at::kCPU); }

TEST(Draw, IsAFunctionOfTheStream) {
  const at::Tensor a = DrawUniform({100}, DrawStream());
  EXPECT_TRUE(DrawUniform({10, 10}, DrawStream()).flatten().equal(a));
  EXPECT_FALSE(DrawUniform({100}, DrawStream(2)).equal(a));
  EXPECT_TRUE(DrawUniform({60}, DrawStream(), 40).equal(a.narrow(0, 40, 60)));
  const RandomStream stream(1, 2, 3, "a");
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a[i].item<float>(), static_cast<float>(stream.Uniform(static_cast<uint64_t>(i))));
  }
  EXPECT_EQ(DrawUniform({0, 3}, DrawStream()).numel(), 0);
}

TEST(Draw, IntegersAreBelowTheBound) {
  const at::Tensor numbers = DrawBelow({20000}, 10, DrawStream());
  EXPECT_EQ(numbers.scalar_type(), at::kLong);
  EXPECT_TRUE(numbers.bincount().sub(2000).abs().lt(200).all().item<bool>()) << numbers.bincount();
  EXPECT_EQ(numbers.max().item<int64_t>(), 9);
}

TEST(Draw, ThreadsDoNotChangeIt) {
  const auto all = [] {
    return at::cat({DrawUniform({100'001}, DrawStream()), DrawNormal({100'001}, DrawStream(), 2),
                    DrawKept({100'001}, 0.1, DrawStream(), 4)});
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = all();
  at::set_num_threads(3);
  const at::Tensor three = all();
  at::set_num_threads(before);
  EXPECT_TRUE(one.equal(three));
}

TEST(Draw, InvalidArgumentsAbort) {
  EXPECT_DEATH(DrawUniform({1}, at::Tensor()), "three words");
  EXPECT_DEATH(DrawNormal({1}, DrawStream(), 1), "drawn together");
  EXPECT_DEATH(DrawUniform({2}, DrawStream(), (int64_t{1} << 34) - 1), "2\\^34 numbers");
}

#ifdef MT_CUDA
/// The compiler needs no GPU: the same source compiles for all known architectures.
TEST(DeviceDraw, CompilesForEveryGpu) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    const auto code = CompileDrawKernel(architecture);
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(code->substr(1, 3), "ELF") << architecture;
  }
  EXPECT_FALSE(CompileDrawKernel("sm_1").ok());
}
#else
TEST(DeviceDraw, BuildWithoutCudaHasNoCode) {
  EXPECT_EQ(CompileDrawKernel("sm_90").status().code(), absl::StatusCode::kFailedPrecondition);
}
#endif

}  // namespace
}  // namespace mtrun::trainers
