#include "trainers/step/notable_images.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/splitmix.h"
#include "tests/support/status.h"

namespace mtrun::trainers {
namespace {

using support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns guesses with few probabilities, so that many are equal.
std::vector<Guess> SomeGuesses(int64_t n) {
  std::vector<Guess> guesses;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = SplitMix64(static_cast<uint64_t>(i));
    guesses.push_back({i, static_cast<int32_t>(bits % 3), static_cast<int32_t>(bits / 3 % 3),
                       static_cast<double>(bits / 9 % 50) / 50});
  }
  return guesses;
}

TEST(NotableImages, KeepsTheExtremes) {
  const std::vector<Guess> all = SomeGuesses(1000);
  NotableImages notable;
  for (const Guess& guess : all) notable.Add(guess);
  ASSERT_EQ(notable.mistakes().size(), NotableImages::kMost);
  ASSERT_EQ(notable.uncertain().size(), NotableImages::kMost);
  const double least = notable.mistakes().back().probability, most = notable.uncertain().back().probability;
  for (const Guess& guess : all) {
    if (guess.guess != guess.label && guess.probability > least) {
      EXPECT_THAT(notable.mistakes(), ::testing::Contains(guess));
    }
    if (guess.probability < most) {
      EXPECT_THAT(notable.uncertain(), ::testing::Contains(guess));
    }
  }
  for (const Guess& guess : notable.mistakes()) EXPECT_NE(guess.guess, guess.label);
}

TEST(NotableImages, AnyDivisionGivesTheSame) {
  const std::vector<Guess> all = SomeGuesses(500);
  NotableImages whole;
  for (const Guess& guess : all) whole.Add(guess);
  for (const size_t workers : {2u, 3u, 7u}) {
    std::vector<NotableImages> parts(workers);
    for (size_t i = all.size(); i-- > 0;) parts[i % workers].Add(all[i]);
    NotableImages merged;
    for (const NotableImages& part : parts) merged.Add(*NotableImages::FromNumbers(part.ToNumbers()));
    EXPECT_EQ(merged, whole) << workers;
  }
}

TEST(NotableImages, ProbabilitiesThatAreNoneAreLeftOut) {
  NotableImages notable;
  notable.Add({.image = 1, .label = 0, .guess = 1, .probability = std::nan("")});
  EXPECT_TRUE(notable.empty());
  notable.Add({.image = 2, .label = 1, .guess = 1, .probability = 0.5});
  EXPECT_THAT(notable.mistakes(), IsEmpty());
  EXPECT_THAT(notable.uncertain(), ElementsAre(Guess{2, 1, 1, 0.5}));
}

TEST(NotableImages, ForeignNumbersAreRefused) {
  NotableImages notable;
  notable.Add({.image = 2, .label = 1, .guess = 0, .probability = 0.5});
  std::vector<int64_t> numbers = notable.ToNumbers();
  ASSERT_EQ(numbers.size(), NotableImages::kNumbers);
  EXPECT_EQ(*NotableImages::FromNumbers(numbers), notable);
  for (const int64_t count : {int64_t{-1}, int64_t{NotableImages::kMost} + 1, INT64_MAX}) {
    numbers[0] = count;
    EXPECT_THAT(NotableImages::FromNumbers(numbers),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a list of images of 194 numbers")));
  }
  numbers.pop_back();
  EXPECT_FALSE(NotableImages::FromNumbers(numbers).ok());
  EXPECT_FALSE(NotableImages::FromNumbers({}).ok());
}

}  // namespace
}  // namespace mtrun::trainers
