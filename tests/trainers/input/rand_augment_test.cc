#include "trainers/input/rand_augment.h"

#include <cstdlib>
#include <fstream>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace mtrun::trainers {
namespace {

using nlohmann::json;

json Pillow() {
  const char* source = std::getenv("MT_SOURCE_DIR");
  std::ifstream file(std::string(source == nullptr ? "." : source) + "/tests/testdata/augment/pil.json");
  EXPECT_TRUE(file.good()) << "MT_SOURCE_DIR is not the project";
  return json::parse(file);
}

at::Tensor AsImage(const json& bytes, int64_t side) {
  const auto values = bytes.get<std::vector<float>>();
  return at::tensor(values).view({1, 3, side, side}) / 127.5 - 1;
}

/// Pillow rounds to bytes in places where this code does not: two of 255 levels are allowed.
TEST(rand_augment, ColoursMatchPillow) {
  const json file = Pillow();
  const int64_t side = file["side"];
  const std::pair<const char*, RandOperation> operations[] = {
      {"brightness", RandOperation::kBrightness},     {"color", RandOperation::kColor},
      {"contrast", RandOperation::kContrast},         {"sharpness", RandOperation::kSharpness},
      {"posterize", RandOperation::kPosterize},       {"solarize", RandOperation::kSolarize},
      {"autocontrast", RandOperation::kAutoContrast}, {"equalize", RandOperation::kEqualize}};
  int compared = 0;
  for (const auto& [name, operation] : operations) {
    for (const auto& [sign, direction] : {std::pair{"+", 1.0f}, std::pair{"-", -1.0f}}) {
      const std::string key = std::string(name) + sign;
      if (!file["results"].contains(key)) continue;
      const at::Tensor got = ApplyRandOperation(AsImage(file["image"], side), operation, file["magnitude"],
                                                at::full({1}, direction));
      const at::Tensor want = AsImage(file["results"][key], side);
      EXPECT_LE((got - want).abs().max().item<double>() * 127.5, 2.01) << key;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12);
}

TEST(rand_augment, EqualizeSpreadsAFlatHistogram) {
  const at::Tensor dark =
      (at::arange(1024, at::kFloat) / 16).view({1, 1, 32, 32}).expand({1, 3, 32, 32}) / 127.5 - 1;
  const at::Tensor y = ApplyRandOperation(dark, RandOperation::kEqualize, 9, at::ones({1}));
  EXPECT_NEAR(y.max().item<double>(), 1, 0.05);
  EXPECT_NEAR(y.min().item<double>(), -1, 1e-6);
  const at::Tensor flat = at::full({1, 3, 16, 16}, 0.5);
  EXPECT_TRUE(
      at::allclose(ApplyRandOperation(flat, RandOperation::kEqualize, 9, at::ones({1})), flat, 0, 0.005));
}

/// A bright column in a black image shows where the pixels moved.
TEST(rand_augment, GeometryGoesBothWays) {
  const int64_t side = 33;
  at::Tensor x = at::full({2, 3, side, side}, -1.0f);
  x.select(3, 16).fill_(1);
  const at::Tensor direction = at::tensor({1.0f, -1.0f});
  const at::Tensor moved = ApplyRandOperation(x, RandOperation::kTranslateX, 9, direction);
  const auto column = [&](const at::Tensor& y, int64_t image, int64_t row) {
    return y[image][0][row].argmax().item<int64_t>();
  };
  // 150/331 * 9/30 * 33 = 4.49 pixels
  EXPECT_NEAR(static_cast<double>(column(moved, 0, 16)), 16 - 4.5, 1);
  EXPECT_NEAR(static_cast<double>(column(moved, 1, 16)), 16 + 4.5, 1);
  const at::Tensor sheared = ApplyRandOperation(x, RandOperation::kShearX, 30, direction);
  EXPECT_NEAR(static_cast<double>(column(sheared, 0, 26)), 16 - 3, 1);
  EXPECT_NEAR(static_cast<double>(column(sheared, 1, 26)), 16 + 3, 1);
  EXPECT_EQ(column(sheared, 0, 16), 16);
  const at::Tensor rotated = ApplyRandOperation(x, RandOperation::kRotate, 30, direction);
  EXPECT_NEAR(std::abs(static_cast<double>(column(rotated, 0, 26)) - 16), 10 * std::tan(M_PI / 6), 1);
  EXPECT_EQ(column(rotated, 0, 26) - 16, 16 - column(rotated, 1, 26));
  EXPECT_TRUE(ApplyRandOperation(x, RandOperation::kTranslateY, 0, direction).allclose(x, 0, 1e-5));
}

TEST(rand_augment, EachImageGetsTheOperationOfItsNumber) {
  const at::Tensor x =
      at::rand({14, 3, 12, 12}, at::detail::createCPUGenerator(5), at::TensorOptions(at::kFloat)) * 1.4 - 0.8;
  at::Tensor random = at::zeros({14, 2});
  random.select(1, 0).copy_((at::arange(14, at::kFloat) + 0.5) / 14);
  const at::Tensor y = RandAugment(x, 9, random), back = at::full({14}, -1.0f);
  for (int64_t i = 0; i < 14; ++i) {
    const at::Tensor want =
        ApplyRandOperation(x.narrow(0, i, 1), static_cast<RandOperation>(i), 9, back.narrow(0, i, 1));
    EXPECT_TRUE(at::allclose(y.narrow(0, i, 1), want, 1e-5, 1e-5)) << i;
    if (i > 0) {
      EXPECT_FALSE(at::allclose(y[i], x[i], 0, 1e-3)) << i;
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers
