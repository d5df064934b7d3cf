#include "trainers/step/step_sums.h"

#include <limits>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(StepSumsTest, RoundTrips) {
  const StepSums record{.loss = ExactSum(0.1 + 0.2),
                        .correct = (int64_t{1} << 60) + 1,
                        .leaving = 1,
                        .regrouping = 2,
                        .overflowed = 3,
                        .gathered = {std::numeric_limits<uint64_t>::max() - 1, 5},
                        .last = {.compute = 0.25, .wait = 0.5, .data = 1}};
  EXPECT_EQ(DecodeStepSums(Encode(record)), record);
}

/// No float32 is involved: 2^24 + 1 correct predictions must not become 2^24, and the hash must wrap around.
TEST(StepSumsTest, SumIsExact) {
  const int64_t many = (int64_t{1} << 24) + 1;
  const std::vector<std::string> all(3, Encode({.loss = ExactSum(0.1),
                                                .correct = many,
                                                .gathered = {std::numeric_limits<uint64_t>::max(), many}}));
  const StepSums sum = SumOf(all);
  EXPECT_DOUBLE_EQ(sum.loss.value(), 0.3);
  EXPECT_EQ(sum.correct, 3 * many);
  EXPECT_EQ(sum.gathered, (datasets::SampleSum{std::numeric_limits<uint64_t>::max() - 2, 3 * many}));
}

TEST(StepSumsTest, TimesOfMembersAreKeptSeparate) {
  StepSums own, other;
  own.last = {.compute = 1, .wait = 2, .data = 3};
  other.last = {.compute = 4, .wait = 5, .data = 6};
  const std::vector<std::string> all = {Encode(own), Encode(other)};
  EXPECT_EQ(LastTimes(all), (std::vector<StepTimes>{own.last, other.last}));
  EXPECT_EQ(SumOf(all).last, StepTimes{});
  EXPECT_EQ(own.last.busy(), 4);
}

TEST(StepSumsTest, VotesAreCounted) {
  StepSums leaves, regroups;
  leaves.Vote({.leave = true, .regroup = false});
  regroups.Vote({.leave = false, .regroup = true});
  const StepSums sum = SumOf({Encode(leaves), Encode(regroups), Encode(leaves)});
  EXPECT_EQ(sum.leaving, 2);
  EXPECT_EQ(sum.regrouping, 1);
}

}  // namespace
}  // namespace mtrun::trainers
