#include "trainers/input/image_augment.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "trainers/input/affine.h"
#include "trainers/random/draw.h"

namespace mtrun::trainers {
namespace {

RandomStream AugmentStream(uint64_t seed) { return {seed, 2, 3, "warp"}; }
at::Generator Generator(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

at::Tensor Images(int64_t n, int64_t side = 16) {
  return at::rand({n, 3, side, side}, Generator(99), at::TensorOptions(at::kFloat)) * 2 - 1;
}

ImageAugmentation Everything() {
  return {.rotation = 15, .translation = 0.1, .rand_augment = 2, .erasing = 0.5};
}

at::Tensor Augment(const at::Tensor& images, const ImageAugmentation& options, const RandomStream& stream) {
  return AugmentBy(DrawAugmentation(images.size(0), options, OnDevice(stream, at::kCPU)), images, options);
}

TEST(image_augment, DefaultOptionsChangeNothing) {
  const at::Tensor x = Images(2);
  EXPECT_TRUE(Augment(x, {}, AugmentStream(1)).is_same(x));
}

TEST(image_augment, IsAFunctionOfTheStream) {
  const at::Tensor x = Images(8);
  const at::Tensor a = Augment(x, Everything(), RandomStream(1, 2, 3, "a"));
  EXPECT_TRUE(Augment(x, Everything(), RandomStream(1, 2, 3, "a")).equal(a));
  EXPECT_FALSE(Augment(x, Everything(), RandomStream(1, 2, 4, "a")).equal(a));
  EXPECT_EQ(a.sizes(), x.sizes());
  EXPECT_EQ(a.scalar_type(), x.scalar_type());
  EXPECT_TRUE(a.isfinite().all().item<bool>());
  EXPECT_GE(a.min().item<float>(), -1.0001);
  EXPECT_LE(a.max().item<float>(), 1.0001);
}

/// The spot lies off the centre, so the rotated image shows the angle.
TEST(image_augment, RotationStaysWithinItsAngle) {
  const int64_t side = 32, n = 100;
  at::Tensor x = at::full({n, 3, side, side}, kBlack);
  x.narrow(2, 15, 2).narrow(3, 27, 2).fill_(1);  // 12 pixels right of the centre
  const at::Tensor y = Augment(x, {.rotation = 15}, AugmentStream(1)).select(1, 0) + 1;
  const at::Tensor pixel = at::arange(side, at::kFloat) - (side - 1) / 2.0;
  const at::Tensor mass = y.sum({1, 2});
  const at::Tensor cx = (y.sum(1) * pixel).sum(1) / mass, cy = (y.sum(2) * pixel).sum(1) / mass;
  const at::Tensor degrees = at::atan2(cy, cx) * (180 / M_PI);
  EXPECT_LE(degrees.abs().max().item<double>(), 15.5);
  EXPECT_GE(degrees.max().item<double>(), 11);
  EXPECT_LE(degrees.min().item<double>(), -11);
  EXPECT_TRUE(at::allclose((cx * cx + cy * cy).sqrt(), at::full({n}, 12.0f), 0, 0.5));
}

TEST(image_augment, TranslationStaysWithinItsShare) {
  const int64_t side = 30, n = 200;
  at::Tensor x = at::full({n, 3, side, side}, kBlack);
  x.narrow(2, 14, 2).narrow(3, 14, 2).fill_(1);
  const at::Tensor y = Augment(x, {.translation = 0.1}, AugmentStream(1)).select(1, 0) + 1;
  const at::Tensor pixel = at::arange(side, at::kFloat) - (side - 1) / 2.0;
  const at::Tensor cx = (y.sum(1) * pixel).sum(1) / y.sum({1, 2});
  EXPECT_LE(cx.abs().max().item<double>(), 3.01);
  EXPECT_GE(cx.max().item<double>(), 2.5);
  EXPECT_LE(cx.min().item<double>(), -2.5);
}

TEST(image_augment, ErasingMakesOneGreyRectangleOfTheRightSize) {
  const int64_t side = 32, n = 400;
  const at::Tensor x = at::ones({n, 3, side, side});
  const at::Tensor erased = Augment(x, {.erasing = 0.5}, AugmentStream(1)) == 0;
  EXPECT_TRUE(erased.select(1, 0).equal(erased.select(1, 2)));
  int hit = 0;
  for (int64_t i = 0; i < n; ++i) {
    const at::Tensor mask = erased[i][0];
    const double area = mask.sum().item<double>();
    if (area == 0) continue;
    ++hit;
    const double rows = mask.any(1).sum().item<double>(), columns = mask.any(0).sum().item<double>();
    EXPECT_EQ(area, rows * columns);
    EXPECT_GE(area / (side * side), 0.012);
    EXPECT_LE(area / (side * side), 0.225);
    EXPECT_LE(rows / columns, 4.5);
    EXPECT_GE(rows / columns, 0.2);
  }
  EXPECT_NEAR(hit, 200, 50);
}

TEST(image_augment, EmptyBatchIsAccepted) {
  EXPECT_EQ(Augment(Images(0), Everything(), AugmentStream(1)).size(0), 0);
}

TEST(image_augment, DoublesStayDoubles) {
  const at::Tensor y = Augment(Images(4).to(at::kDouble), Everything(), AugmentStream(1));
  EXPECT_EQ(y.scalar_type(), at::kDouble);
}

}  // namespace
}  // namespace mtrun::trainers
