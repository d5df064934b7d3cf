#include "trainers/input/mixing.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

constexpr int kDraws = 20'000;

MixingDraw Drawn(const Mixing& mixing, int64_t micro_batch) {
  return DrawMixing(mixing, RandomStream(7, 3, micro_batch, "mixing"));
}

TEST(Mixing, IsAFunctionOfTheMicroBatch) {
  EXPECT_EQ(Drawn({0.4, 1}, 5), Drawn({0.4, 1}, 5));
  EXPECT_NE(Drawn({0.4, 0}, 5), Drawn({0.4, 0}, 6));
}

/// Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)).
TEST(Mixing, SharesHaveTheBetaDistribution) {
  for (const double a : {0.1, 0.2, 0.5, 1.0}) {
    double sum = 0, squares = 0;
    for (int k = 0; k < kDraws; ++k) {
      const MixingDraw draw = Drawn({a, 0}, k);
      ASSERT_FALSE(draw.cut);
      ASSERT_GE(draw.kept, 0);
      ASSERT_LE(draw.kept, 1);
      sum += draw.kept;
      squares += (draw.kept - 0.5) * (draw.kept - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << a;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * a + 1)), 0.005) << a;
  }
}

/// With the smallest parameter most shares are 0 or 1, even where powers are too small for a double.
TEST(Mixing, SmallParametersAreInBounds) {
  int ends = 0;
  for (int k = 0; k < 1000; ++k) {
    const float kept = Drawn({kMinBeta, 0}, k).kept;
    ASSERT_TRUE(kept >= 0 && kept <= 1) << kept;
    ends += kept < 0.01F || kept > 0.99F;
  }
  EXPECT_GT(ends, 950);
}

TEST(Mixing, BoxesAreSpreadOverTheImage) {
  double x = 0, y = 0, area = 0;
  for (int k = 0; k < kDraws; ++k) {
    const MixingDraw draw = Drawn({0, 1}, k);
    ASSERT_TRUE(draw.cut);
    ASSERT_TRUE(draw.x >= 0 && draw.x < 1 && draw.y >= 0 && draw.y < 1);
    ASSERT_TRUE(draw.half_side >= 0 && draw.half_side <= 0.5F);
    x += draw.x, y += draw.y, area += 4 * draw.half_side * draw.half_side;
  }
  EXPECT_NEAR(x / kDraws, 0.5, 0.01);
  EXPECT_NEAR(y / kDraws, 0.5, 0.01);
  EXPECT_NEAR(area / kDraws, 0.5, 0.01) << "the share of the other image, of Beta(1, 1)";
}

TEST(Mixing, EachMicroBatchTakesOneOfTwo) {
  int cut = 0;
  for (int k = 0; k < kDraws; ++k) cut += Drawn({0.2, 1}, k).cut;
  EXPECT_NEAR(static_cast<double>(cut) / kDraws, 0.5, 0.02);
}

}  // namespace
}  // namespace mtrun::trainers
