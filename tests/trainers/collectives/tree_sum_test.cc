#include "trainers/collectives/tree_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/trainers/collectives/leaf_shares.h"

namespace mtrun::collectives {
namespace {

using testing::ElementsAre;

/// The definition, in another way than the code's: texts instead of numbers, so that the order is visible.
std::string OrderText(int64_t begin, int64_t end, int64_t filled) {
  if (begin >= filled) return "";
  if (end - begin == 1) return absl::StrCat(begin);
  const int64_t half = (end - begin + 1) / 2;
  const std::string first = OrderText(begin, begin + half, filled),
                    second = OrderText(begin + half, end, filled);
  return second.empty() ? first : absl::StrCat("(", first, "+", second, ")");
}

/// Performs what each rank and then the owner do, on texts or numbers.
template <typename Value, typename Add>
Value PerformSum(const std::vector<LeafRange>& ranges, int64_t leaves, int64_t filled,
                 const std::vector<Value>& contributions, Add add) {
  const TreePlan plan = PlanTree(ranges, leaves, filled);
  std::vector<Value> inputs;
  for (size_t rank = 0; rank < ranges.size(); ++rank) {
    std::vector<Value> stack;
    std::vector<Value> partials(static_cast<size_t>(plan.partials[rank]));
    auto leaf = static_cast<size_t>(ranges[rank].begin);
    for (const LeafStep& step : LeafSteps(ranges[rank], leaves, filled)) {
      stack.push_back(contributions.at(leaf++));
      for (int k = 0; k < step.additions; ++k) {
        const Value right = stack.back();
        stack.pop_back();
        stack.back() = add(stack.back(), right);
      }
      if (step.partial >= 0) partials.at(static_cast<size_t>(step.partial)) = stack.back();
    }
    inputs.insert(inputs.end(), partials.begin(), partials.end());
  }
  if (plan.additions.empty()) return inputs.at(0);
  std::vector<Value> stack;
  const auto take = [&](int from) {
    if (from != TreePlan::kStack) return inputs.at(static_cast<size_t>(from));
    const Value value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const TreePlan::Addition& addition : plan.additions) {
    const Value right = take(addition.right), left = take(addition.left);
    stack.push_back(add(left, right));
    EXPECT_LE(stack.size(), static_cast<size_t>(plan.depth));
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.at(0);
}

TEST(TreeSumTest, NodesAreHalvedAndTheFirstHalfIsTheLargerOne) {
  EXPECT_EQ(OrderText(0, 5, 5), "(((0+1)+2)+(3+4))");
  EXPECT_THAT(PartialSums({0, 3}, 5, 5), ElementsAre(LeafRange{0, 3}));
  EXPECT_THAT(PartialSums({3, 5}, 5, 5), ElementsAre(LeafRange{3, 5}));
  EXPECT_THAT(PartialSums({1, 4}, 5, 5), ElementsAre(LeafRange{1, 2}, LeafRange{2, 3}, LeafRange{3, 4}));
}

TEST(TreeSumTest, SumIsTheTreesForAllSharesOfUpTo16MicroBatches) {
  const auto add = [](const std::string& a, const std::string& b) {
    return absl::StrCat("(", a, "+", b, ")");
  };
  for (int64_t leaves = 1; leaves <= 16; ++leaves) {
    std::vector<std::string> names;
    for (int64_t leaf = 0; leaf < leaves; ++leaf) names.push_back(absl::StrCat(leaf));
    for (int world = 1; world <= 8; ++world) {
      for (int64_t filled = 1; filled <= leaves; ++filled) {
        EXPECT_EQ(PerformSum(LeafShares(leaves, world), leaves, filled, names, add),
                  OrderText(0, leaves, filled))
            << leaves << " micro-batches, " << filled << " exist, " << world << " workers";
      }
    }
  }
}

TEST(TreeSumTest, RandomRangesGiveTheSameBits) {
  std::mt19937_64 random(7);
  const auto below = [&random](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  for (int round = 0; round < 3000; ++round) {
    const int64_t leaves = 1 + below(200), filled = 1 + below(leaves);
    std::vector<float> values;
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      constexpr float kOdd[] = {-0.0f, 0.0f, 1e-45f, -1e-45f, 3e38f, 1.0f};
      values.push_back(below(4) == 0 ? kOdd[below(6)]
                                     : std::ldexp(static_cast<float>(below(1 << 24)) - (1 << 23),
                                                  static_cast<int>(below(40)) - 20));
    }
    const auto add = [](float a, float b) { return a + b; };
    const float alone = PerformSum(LeafShares(leaves, 1), leaves, filled, values, add);
    std::set<int64_t> cuts = {0, leaves};
    for (int64_t k = below(9); k > 0; --k) cuts.insert(below(leaves));
    std::vector<LeafRange> ranges;
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut)
      ranges.push_back({*cut, *std::next(cut)});
    if (below(2) == 0)
      ranges.insert(ranges.begin() + below(static_cast<int64_t>(ranges.size()) + 1), LeafRange{0, 0});
    const float shared = PerformSum(ranges, leaves, filled, values, add);
    ASSERT_EQ(std::signbit(alone), std::signbit(shared)) << round;
    ASSERT_TRUE(alone == shared || (std::isnan(alone) && std::isnan(shared))) << alone << " and " << shared;
  }
}

TEST(TreeSumTest, WorkersThatHalveTheStepSendOneSum) {
  for (const int world : {1, 2, 4, 8}) {
    for (const int64_t leaves : {8, 12, 13, 16, 24, 48}) {
      if (world == 8 && leaves % world != 0) continue;  // a share then has leaves of two quarters
      const TreePlan plan = PlanTree(LeafShares(leaves, world), leaves, leaves);
      EXPECT_EQ(plan.most_partials(), 1) << plan.Describe();
      EXPECT_EQ(plan.inputs(), plan.additions.size() + 1);
    }
  }
}

TEST(TreeSumTest, OtherWorkersSendFewSums) {
  for (int64_t leaves = 1; leaves <= 256; ++leaves) {
    for (const int world : {3, 5, 6, 7}) {
      const int most = MostPartials(LeafShares(leaves, world), leaves);
      EXPECT_LE(most, std::max(1.0, 2 * std::log2(static_cast<double>(leaves))))
          << leaves << " over " << world;
      for (const int64_t filled : {leaves, (leaves + 1) / 2, int64_t{1}})
        EXPECT_LE(PlanTree(LeafShares(leaves, world), leaves, filled).most_partials(), most);
    }
  }
}

TEST(TreeSumTest, IdleRanksHaveNoSum) {
  const TreePlan plan = PlanTree(LeafShares(2, 3), 2, 2);
  EXPECT_THAT(plan.partials, ElementsAre(1, 1, 0));
  const TreePlan shorter = PlanTree(LeafShares(4, 2), 4, 1);
  EXPECT_THAT(shorter.partials, ElementsAre(1, 0));
  EXPECT_TRUE(shorter.additions.empty()) << "the only one is the sum";
}

TEST(TreeSumTest, PlansOfOtherStepsOrWorkersDiffer) {
  std::set<uint32_t> digests;
  int plans = 0;
  for (int64_t leaves = 1; leaves <= 12; ++leaves) {
    for (int64_t filled = 1; filled <= leaves; ++filled, ++plans) {
      const TreePlan plan = PlanTree(LeafShares(leaves, 3), leaves, filled);
      EXPECT_NE(plan.Digest(), 0u);
      EXPECT_EQ(plan, PlanTree(LeafShares(leaves, 3), leaves, filled));
      digests.insert(plan.Digest());
    }
  }
  EXPECT_EQ(digests.size(), static_cast<size_t>(plans));
  EXPECT_EQ(PlanTree(LeafShares(4, 2), 4, 3).Describe(),
            "3 of 4 micro-batches, partial sums by rank 1,1, 1 additions");
}

/// tests/python/tree_sum_test.py reads the same file.
TEST(TreeSumTest, PlansAreThoseOfThePythonPackage) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set MT_SOURCE_DIR to the root of the sources";
  std::ifstream file(std::string(source) + "/tests/testdata/tree_plans.txt");
  int plans = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    int64_t leaves = 0, filled = 0;
    int world = 0;
    uint32_t digest = 0;
    words >> leaves >> filled >> world >> digest;
    EXPECT_EQ(PlanTree(LeafShares(leaves, world), leaves, filled).Digest(), digest) << line;
    ++plans;
  }
  EXPECT_GT(plans, 100);
}

}  // namespace
}  // namespace mtrun::collectives
