#include "trainers/random/random_stream.h"

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using Words = std::vector<uint32_t>;

Words WordsOf(const PhiloxBlock& block) { return {block.words, block.words + 4}; }

/// Known answers for philox4x32 with 10 rounds, published by the authors' library Random123.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(WordsOf(Philox4x32({{0, 0, 0, 0}}, 0)), Words({0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(WordsOf(Philox4x32({{kOnes, kOnes, kOnes, kOnes}}, ~uint64_t{0})),
            Words({0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(WordsOf(Philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822)),
            Words({0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// kRandomStreamVersion names exactly these numbers: if one changes, the version must change.
TEST(RandomStream, NumbersMatchTheVersion) {
  const RandomStream stream(1, 2, 3, "dropout");
  const RandomStreamId& id = stream.id();
  EXPECT_EQ(static_cast<uint64_t>(id.key), SplitMix64(SplitMix64(1) ^ Fnv1a("dropout")));
  EXPECT_EQ(WordsOf(RandomBlock(id, 7)), WordsOf(Philox4x32({{7, 3, 2, 0}}, static_cast<uint64_t>(id.key))));
  EXPECT_EQ(WordsOf(RandomBlock({id.key, (int64_t{5} << 32) + 2, 3}, 7)),
            WordsOf(Philox4x32({{7, 3, 2, 5}}, static_cast<uint64_t>(id.key))));
  EXPECT_EQ(stream.Word(30), RandomBlock(id, 7).words[2]);
  EXPECT_STREQ(kRandomStreamVersion, "2");
}

TEST(RandomStream, DependsOnSeedStepAndMicroBatch) {
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t step = 0; step < 30; ++step) {
      for (int64_t micro_batch = 0; micro_batch < 10; ++micro_batch)
        seen.insert(RandomStream(seed, step, micro_batch, "a").Word(0));
    }
  }
  EXPECT_EQ(seen.size(), 3000u);
  EXPECT_NE(RandomStream(1, 2, 3, "augment").Word(0), RandomStream(1, 2, 3, "dropout").Word(0));
}

TEST(RandomStream, NumbersAreInRange) {
  EXPECT_EQ(UniformOf(0), 0);
  EXPECT_EQ(UniformOf(0xffffffff), 1 - 0x1p-24f);
  float first = 0, second = 0;
  NormalsOf(0xffffffff, 0, first, second);
  EXPECT_NEAR(first, 0, 1e-4);
  NormalsOf(0, 0, first, second);
  EXPECT_NEAR(first, std::sqrt(64 * std::log(2)), 1e-5) << "the largest one";
  const RandomStream stream(1, 2, 3, "a");
  std::vector<int> counts(7);
  for (uint64_t i = 0; i < 7000; ++i) ++counts.at(stream.Below(i, 7));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

std::vector<float> Numbers(const RandomStreamId& id, DrawPlan plan) {
  std::vector<float> numbers(static_cast<size_t>(plan.count), -9);
  DrawNumbers(id, plan, numbers.data());
  return numbers;
}

/// Covers parts of any position and length, drawn by either of the two loops.
TEST(DrawNumbers, PartsEqualTheWhole) {
  const RandomStreamId id = RandomStream(1, 2, 3, "a").id();
  for (const Draw draw : {Draw::kUniform, Draw::kNormal, Draw::kKept}) {
    const DrawPlan whole{.draw = draw, .rate = 0.25f, .value = 2, .first = 0, .count = 300};
    const std::vector<float> all = Numbers(id, whole);
    for (const int64_t first : {0, 2, 4, 32, 100}) {
      for (const int64_t count : {0, 1, 3, 4, 31, 32, 33, 64, 130}) {
        DrawPlan part = whole;
        part.first = static_cast<uint64_t>(first);
        part.count = count;
        EXPECT_EQ(Numbers(id, part), std::vector<float>(all.begin() + first, all.begin() + first + count))
            << static_cast<int>(draw) << ": " << count << " from " << first;
      }
    }
    std::vector<float> blockwise(300, -9);
    for (uint64_t block = 0; block < 75; ++block) DrawBlock(id, whole, block, blockwise.data());
    EXPECT_EQ(blockwise, all) << static_cast<int>(draw);
  }
}

TEST(DrawNumbers, HaveTheMomentsOfTheirDistribution) {
  constexpr int64_t kCount = 200'000;
  const auto moments = [](const DrawPlan& plan) {
    const std::vector<float> numbers = Numbers(RandomStream(9, 8, 7, "moments").id(), plan);
    std::vector<double> sums(4);
    for (const double x : numbers) {
      for (int power = 1; power <= 4; ++power) sums[power - 1] += std::pow(x, power) / kCount;
    }
    return sums;
  };
  const std::vector<double> normal = moments({.draw = Draw::kNormal, .count = kCount});
  EXPECT_NEAR(normal[0], 0, 0.01);
  EXPECT_NEAR(normal[1], 1, 0.02);
  EXPECT_NEAR(normal[2], 0, 0.05);
  EXPECT_NEAR(normal[3], 3, 0.1);
  const std::vector<double> uniform = moments({.draw = Draw::kUniform, .count = kCount});
  EXPECT_NEAR(uniform[0], 1.0 / 2, 0.003);
  EXPECT_NEAR(uniform[1], 1.0 / 3, 0.003);
  const std::vector<double> kept =
      moments({.draw = Draw::kKept, .rate = 0.2f, .value = 1.25f, .count = kCount});
  EXPECT_NEAR(kept[0], 1, 0.01);
  EXPECT_NEAR(kept[1], 1.25, 0.01);
}

}  // namespace
}  // namespace mtrun::trainers
