#include "trainers/input/colour_jitter.h"

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAreArray;
using JitterDraws = std::array<double, kJitterDraws>;
using Pixels = std::vector<uint8_t>;

const Pixels kPixels = {10, 200, 30, 250, 5, 90, 0, 0, 0, 255, 255, 255, 120, 130, 140, 33, 66, 99};

Pixels Jittered(const ColourJitter& jitter, const JitterDraws& draws, Pixels pixels = kPixels) {
  JitterColours(jitter, draws, absl::MakeSpan(pixels));
  return pixels;
}

/// Returns the draw that yields `factor` with --color_jitter 0.5.
constexpr double For(double factor) { return factor - 0.5; }

// Expected values from Pillow's ImageEnhance.
TEST(JitterColours, MatchesPillow) {
  EXPECT_THAT(
      Jittered({.colours = 0.5}, {0, For(1.3), For(1), For(1), 0}),
      ElementsAreArray(Pixels{13, 255, 39, 255, 6, 116, 0, 0, 0, 255, 255, 255, 156, 169, 182, 42, 85, 128}));
  EXPECT_THAT(
      Jittered({.colours = 0.5}, {0, For(1), For(1.3), For(1), 0}),
      ElementsAreArray(Pixels{0, 227, 6, 255, 0, 84, 0, 0, 0, 255, 255, 255, 123, 136, 149, 10, 53, 96}));
  EXPECT_THAT(
      Jittered({.colours = 0.5}, {0, For(1), For(1), For(1.3), 0}),
      ElementsAreArray(Pixels{0, 222, 1, 255, 0, 90, 0, 0, 0, 255, 255, 255, 117, 130, 143, 24, 67, 110}));
  EXPECT_THAT(
      Jittered({.colours = 0.5}, {0, For(0.6), For(1.3), For(0.8), 0}),
      ElementsAreArray(Pixels{16, 124, 18, 151, 11, 51, 0, 0, 0, 179, 179, 179, 75, 80, 87, 9, 30, 50}));
}

TEST(JitterColours, OrderIsDrawnToo) {
  const Pixels first = Jittered({.colours = 0.5}, {0, 0.9, 0.8, 0.1, 0});
  EXPECT_NE(Jittered({.colours = 0.5}, {0.999, 0.9, 0.8, 0.1, 0}), first);
  EXPECT_EQ(Jittered({.colours = 0.5}, {0.01, 0.9, 0.8, 0.1, 0}), first);
}

TEST(JitterColours, ThirdOfACircleTurnsRedIntoGreen) {
  const Pixels red = {200, 0, 0, 200, 100, 0, 7, 7, 7};
  EXPECT_EQ(Jittered({.hue = 1. / 3}, {0, 0, 0, 0, 0.9999999}, red),
            (Pixels{0, 200, 0, 0, 200, 100, 7, 7, 7}));
  EXPECT_EQ(Jittered({.hue = 1. / 3}, {0, 0, 0, 0, 0}, red), (Pixels{0, 0, 200, 100, 0, 200, 7, 7, 7}));
}

TEST(JitterColours, MiddleDrawsChangeNothing) {
  EXPECT_EQ(Jittered({.colours = 0.4, .hue = 0.2}, {0.3, 0.5, 0.5, 0.5, 0.5}), kPixels);
  EXPECT_EQ(Jittered({}, {0.3, 0.9, 0.9, 0.9, 0.9}), kPixels);
}

}  // namespace
}  // namespace mtrun::trainers
