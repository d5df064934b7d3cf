#include "trainers/device/amp.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

at::ScalarType TypeOfProduct() { return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(); }

TEST(amp, ScopeTurnsAutocastOnAndOff) {
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
  {
    const Autocast scope(at::kCPU, Precision::kBf16);
    EXPECT_EQ(TypeOfProduct(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, Precision::kBf16);
      EXPECT_EQ(TypeOfProduct(), at::kBFloat16);
    }
    EXPECT_EQ(TypeOfProduct(), at::kBFloat16);
  }
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(amp, Fp32DoesNothing) {
  const Autocast scope(at::kCPU, Precision::kFp32);
  EXPECT_EQ(TypeOfProduct(), at::kFloat);
}

/// If the cache of converted weights outlived the scope, the next step would compute with old weights.
TEST(amp, WeightsChangedBetweenScopesAreSeen) {
  at::Tensor weight = at::ones({2, 2}).requires_grad_();
  const at::Tensor x = at::ones({2, 2});
  const auto product = [&] {
    const Autocast scope(at::kCPU, Precision::kBf16);
    return at::mm(x, weight)[0][0].item<double>();
  };
  EXPECT_EQ(product(), 2);
  {
    torch::NoGradGuard no_grad;
    weight.mul_(3);
  }
  EXPECT_EQ(product(), 6);
}

TEST(amp, Precisions) {
  EXPECT_EQ(*ParsePrecision("fp32", at::kCPU), Precision::kFp32);
  EXPECT_EQ(*ParsePrecision("bf16", at::kCPU), Precision::kBf16);
  EXPECT_EQ(*ParsePrecision("fp16", at::kCUDA), Precision::kFp16);
  EXPECT_THAT(std::string(ParsePrecision("fp16", at::kCPU).status().message()), ::testing::HasSubstr("bf16"));
  EXPECT_THAT(std::string(ParsePrecision("fp8", at::kCUDA).status().message()), ::testing::HasSubstr("fp8"));
}

}  // namespace
}  // namespace mtrun::trainers
