// Compares mixed images with loops, and the loss of a classifier with that of labels as distributions.
#include "trainers/tasks/mixed_images.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

at::Tensor SomeImages(int64_t n, int64_t height, int64_t width) {
  return at::arange(n * 3 * height * width, at::kFloat).reshape({n, 3, height, width}).sin();
}

TEST(MixedImages, MixUpKeepsTheShareOfEachPixel) {
  const at::Tensor images = SomeImages(3, 4, 5);
  const MixedImages mixed = Mix(images, OnDevice({.cut = false, .kept = 0.25F}, at::kCPU));
  EXPECT_EQ(mixed.kept.item<float>(), 0.25F);
  for (int64_t k = 0; k < 3; ++k) {
    const at::Tensor other = images[(k + 2) % 3];
    EXPECT_TRUE(at::allclose(mixed.images[k], images[k] * 0.25 + other * 0.75, 1e-6, 1e-6)) << k;
  }
}

TEST(MixedImages, CutMixTakesABoxOfTheOtherImage) {
  const int64_t height = 12, width = 20;
  const at::Tensor images = SomeImages(4, height, width);
  for (const MixingDraw& draw :
       {MixingDraw{true, 1, 0.5F, 0.5F, 0.25F}, MixingDraw{true, 1, 0.02F, 0.9F, 0.4F},
        MixingDraw{true, 1, 0.3F, 0.3F, 0}, MixingDraw{true, 1, 0.5F, 0.5F, 0.5F}}) {
    const auto x = std::floor(draw.x * width), y = std::floor(draw.y * height);
    const auto half_x = std::floor(draw.half_side * width), half_y = std::floor(draw.half_side * height);
    at::Tensor want = images.clone();
    int64_t replaced = 0;
    for (int64_t row = 0; row < height; ++row) {
      for (int64_t column = 0; column < width; ++column) {
        const bool inside = std::max(x - half_x, 0.0F) <= column && column < x + half_x &&
                            y - half_y <= row && row < y + half_y;
        if (!inside) continue;
        ++replaced;
        for (int64_t k = 0; k < 4; ++k)
          want[k].select(1, row).select(1, column).copy_(
              images[(k + 3) % 4].select(1, row).select(1, column));
      }
    }
    const MixedImages mixed = Mix(images, OnDevice(draw, at::kCPU));
    EXPECT_TRUE(mixed.images.equal(want)) << draw.x;
    EXPECT_FLOAT_EQ(mixed.kept.item<float>(),
                    1 - static_cast<float>(replaced) / static_cast<float>(height * width));
  }
}

TEST(MixedImages, TypeAndMemoryFormatStay) {
  const at::Tensor draw = OnDevice({.cut = false, .kept = 0.5F}, at::kCPU);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor images = SomeImages(2, 8, 8).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor mixed = Mix(images, draw).images;
    EXPECT_EQ(mixed.scalar_type(), type);
    EXPECT_TRUE(mixed.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(MixedImages, OneImageStaysItself) {
  const at::Tensor images = SomeImages(1, 4, 4);
  EXPECT_TRUE(at::allclose(Mix(images, OnDevice({.cut = false, .kept = 0.3F}, at::kCPU)).images, images));
}

/// A network that looks at pixels, so that mixed images give other logits.
class FirstPixels : public torch::nn::Module {
 public:
  FirstPixels() { weight_ = register_parameter("weight", at::eye(4)); }
  at::Tensor forward(const at::Tensor& images) const {
    return images.flatten(1).slice(1, 0, 4).matmul(weight_.to(images.scalar_type()));
  }

 private:
  at::Tensor weight_;
};

TEST(MixedImages, LossIsThatOfLabelsAsDistributions) {
  const at::Tensor images = SomeImages(3, 4, 4), labels = at::tensor({0, 3, 1}, at::kLong);
  for (const double smoothing : {0.0, 0.1}) {
    const auto task = Classify(AsModel(std::make_shared<FirstPixels>()), 4,
                               {.mixing = {.mixup = 0.5, .cutmix = 1}, .smoothing = smoothing});
    EXPECT_TRUE(task->mixes());
    EXPECT_TRUE(task->draws());
    for (int64_t number = 0; number < 20; ++number) {
      const RandomInputs random{task->Draw(3, {.seed = 1, .step = 2, .micro_batch = number}), {}};
      const MixedImages mixed = Mix(images, random.drawn[0]);
      const at::Tensor own = at::one_hot(labels, 4).to(at::kFloat), other = MovedOn(own);
      const at::Tensor target = own * mixed.kept + other * (1 - mixed.kept);
      const at::Tensor logits = mixed.images.flatten(1).slice(1, 0, 4);
      const double want =
          at::cross_entropy_loss(logits, target, {}, at::Reduction::Mean, -100, smoothing).item<double>();
      const Task::Output output = task->Train({.images = images, .labels = labels}, random);
      EXPECT_NEAR(output.loss.item<double>(), want, 1e-6) << number;
    }
  }
}

TEST(MixedImages, EmptyMicroBatchHasNoLoss) {
  const auto task = Classify(AsModel(std::make_shared<FirstPixels>()), 4, {.mixing = {.mixup = 0.5}});
  const RandomInputs random{task->Draw(0, {}), {}};
  const Task::Output output =
      task->Train({.images = at::zeros({0, 3, 4, 4}), .labels = at::zeros({0}, at::kLong)}, random);
  EXPECT_EQ(output.loss.item<double>(), 0);
}

}  // namespace
}  // namespace mtrun::trainers
