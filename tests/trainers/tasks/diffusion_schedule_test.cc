#include "trainers/tasks/diffusion_schedule.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using DiffusionKind = DiffusionSchedule::Kind;

TEST(diffusion_schedule, NoiseGrowsFromNearlyNoneToNearlyAll) {
  for (const DiffusionKind kind : {DiffusionKind::kLinear, DiffusionKind::kCosine}) {
    const DiffusionSchedule schedule(kind);
    ASSERT_EQ(schedule.steps(), 1000);
    EXPECT_EQ(schedule.alpha_bar(-1), 1);
    EXPECT_GT(schedule.alpha_bar(0), 0.999);
    EXPECT_LT(schedule.alpha_bar(999), 1e-4);
    for (int64_t t = 0; t < 1000; ++t) {
      EXPECT_GT(schedule.beta(t), 0);
      EXPECT_LT(schedule.beta(t), 1);
      EXPECT_LT(schedule.alpha_bar(t), schedule.alpha_bar(t - 1));
    }
  }
}

TEST(diffusion_schedule, EachRowGetsItsOwnTime) {
  const DiffusionSchedule schedule(DiffusionKind::kLinear);
  const at::Tensor x0 = at::ones({2, 3, 2, 2}), noise = at::full({2, 3, 2, 2}, -1.0f);
  const at::Tensor x = schedule.AddNoise(x0, at::tensor({5, 700}, at::kLong), noise);
  for (const auto& [row, t] : {std::pair{0, 5}, std::pair{1, 700}}) {
    const double ab = schedule.alpha_bar(t);
    EXPECT_NEAR(x[row][0][0][0].item<double>(), std::sqrt(ab) - std::sqrt(1 - ab), 1e-6);
  }
}

/// If the network knows the answer, sampling restores the image, for both kinds of target.
TEST(diffusion_schedule, SamplingWithThePerfectNetworkRestoresTheImage) {
  const DiffusionSchedule schedule(DiffusionKind::kCosine);
  const at::Tensor x0 = at::linspace(-1, 1, 12).view({1, 3, 2, 2});
  for (const DiffusionTarget target : {DiffusionTarget::kEpsilon, DiffusionTarget::kVelocity}) {
    const auto truth = [&](const at::Tensor& x, const at::Tensor& t) {
      const double ab = schedule.alpha_bar(t[0].item<int64_t>());
      return schedule.Target(target, x0, t, (x - std::sqrt(ab) * x0) / std::sqrt(1 - ab));
    };
    for (const bool clip : {false, true}) {
      const DiffusionSampler sampler(schedule, target, truth, clip);
      EXPECT_TRUE(at::allclose(sampler.Ddim(at::ones_like(x0), 20), x0, 1e-3, 1e-3));
      const auto noise = [&](int64_t) { return at::ones_like(x0); };
      EXPECT_TRUE(at::allclose(sampler.Ddpm(at::ones_like(x0), 999, noise), x0, 1e-2, 1e-2));
    }
  }
}

TEST(diffusion_schedule, ClippingKeepsTheEstimateInRange) {
  const DiffusionSchedule schedule(DiffusionKind::kLinear);
  const auto wild = [](const at::Tensor& x, const at::Tensor&) { return -3 * x; };
  const at::Tensor start = at::ones({1, 3, 2, 2});
  EXPECT_LE(DiffusionSampler(schedule, DiffusionTarget::kEpsilon, wild, true)
                .Ddim(start, 10)
                .abs()
                .max()
                .item<double>(),
            1.0001);
  EXPECT_GT(DiffusionSampler(schedule, DiffusionTarget::kEpsilon, wild, false)
                .Ddim(start, 10)
                .abs()
                .max()
                .item<double>(),
            10);
}

TEST(diffusion_schedule, DdimTimesAreSpreadOverAll) {
  EXPECT_THAT(DiffusionSampler::DdimTimes(1000, 2), ::testing::ElementsAre(999, 0));
  // 999 / 4 = 249.75, 499.5 (to even), 749.25
  EXPECT_THAT(DiffusionSampler::DdimTimes(1000, 5), ::testing::ElementsAre(999, 749, 500, 250, 0));
}

TEST(diffusion_schedule, Names) {
  EXPECT_EQ(*ParseDiffusionKind("cosine"), DiffusionKind::kCosine);
  EXPECT_EQ(*ParseDiffusionTarget("v"), DiffusionTarget::kVelocity);
  EXPECT_THAT(std::string(ParseDiffusionKind("quadratic").status().message()),
              ::testing::HasSubstr("linear or cosine"));
  EXPECT_THAT(std::string(ParseDiffusionTarget("x0").status().message()),
              ::testing::HasSubstr("epsilon or v"));
}

}  // namespace
}  // namespace mtrun::trainers
