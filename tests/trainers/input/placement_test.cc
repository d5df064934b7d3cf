#include "trainers/input/placement.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(Placements, AreAFunctionOfTheStream) {
  const Augmentation augmentation{.flip = true, .crop_padding = 4};
  const auto a = DrawPlacements(augmentation, RandomStream(1, 2, 3, "a"), 1000);
  EXPECT_EQ(a, DrawPlacements(augmentation, RandomStream(1, 2, 3, "a"), 1000));
  EXPECT_NE(a, DrawPlacements(augmentation, RandomStream(2, 2, 3, "a"), 1000));
  int flips = 0, low = 0, high = 0;
  for (const Placement& p : a) {
    EXPECT_LE(std::abs(p.dx), 4);
    EXPECT_LE(std::abs(p.dy), 4);
    flips += p.flip;
    low += p.dx == -4;
    high += p.dy == 4;
  }
  EXPECT_NEAR(flips, 500, 100);
  EXPECT_GT(low, 50);
  EXPECT_GT(high, 50);
}

TEST(Placements, ReachEveryPosition) {
  std::set<std::pair<int, int>> seen;
  for (const Placement& p : DrawPlacements({.crop_padding = 2}, RandomStream(1, 2, 3, "a"), 1000)) {
    EXPECT_FALSE(p.flip);
    seen.insert({p.dx, p.dy});
  }
  EXPECT_EQ(seen.size(), 25u);
}

TEST(Placements, DefaultAugmentationMovesNothing) {
  for (const Placement& p : DrawPlacements({}, RandomStream(1, 2, 3, "a"), 50)) EXPECT_EQ(p, Placement{});
}

}  // namespace
}  // namespace mtrun::trainers
