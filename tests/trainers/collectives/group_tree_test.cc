// Sums of partial sums: the bits are those of one worker, for every layout of ranks over hosts.
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/collectives/leaf_shares.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/group.h"

namespace mtrun::collectives {
namespace {

template <typename T>
std::vector<T> TreeLeaf(int64_t leaf, size_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(leaf) * 1000003 + count);
  std::vector<T> values(count);
  for (T& value : values) value = (static_cast<T>(random() % 2001) - 1000) * static_cast<T>(0.3);
  return values;
}

template <typename T>
std::vector<T> TreeAdded(std::vector<T> left, const std::vector<T>& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

/// The sum by its definition.
template <typename T>
std::vector<T> TreeExpected(int64_t begin, int64_t end, int64_t filled, size_t count) {
  if (end - begin == 1) return TreeLeaf<T>(begin, count);
  const int64_t middle = begin + (end - begin + 1) / 2;
  std::vector<T> first = TreeExpected<T>(begin, middle, filled, count);
  return middle >= filled ? first : TreeAdded(std::move(first), TreeExpected<T>(middle, end, filled, count));
}

/// This rank's partial sums, `most` or more parts.
template <typename T>
std::vector<T> TreePartials(const std::vector<LeafRange>& ranges, int rank, const TreePlan& plan,
                            size_t count) {
  const LeafRange own = ranges[static_cast<size_t>(rank)];
  std::vector<T> parts(static_cast<size_t>(std::max(1, plan.most_partials())) * count, T{-7});
  std::vector<std::vector<T>> stack;
  int64_t leaf = own.begin;
  for (const LeafStep& step : LeafSteps(own, plan.leaves, plan.filled)) {
    stack.push_back(TreeLeaf<T>(leaf++, count));
    for (int k = 0; k < step.additions; ++k) {
      const std::vector<T> right = std::move(stack.back());
      stack.pop_back();
      stack.back() = TreeAdded(std::move(stack.back()), right);
    }
    if (step.partial >= 0)
      std::copy(stack.back().begin(), stack.back().end(),
                parts.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(step.partial) * count));
  }
  return parts;
}

template <typename T>
void CheckTreeSum(Group& group, DataType dtype, int64_t leaves, int64_t filled, size_t count) {
  const std::vector<LeafRange> ranges = LeafShares(leaves, group.size());
  const auto plan = std::make_shared<TreePlan>(PlanTree(ranges, leaves, filled));
  const std::vector<T> expected = TreeExpected<T>(0, leaves, filled, count);
  const std::string where = absl::StrCat(plan->Describe(), ", ", count, " elements");
  // In ordinary memory, in shared memory, and in both across the ranks.
  for (const char* kind : {"ordinary", "shared", "mixed"}) {
    std::vector<T> parts = TreePartials<T>(ranges, group.rank(), *plan, count);
    const auto shared = group.Allocate(std::max<size_t>(1, parts.size() * sizeof(T)));
    T* memory = parts.data();
    if (shared.ok() && (kind[0] == 's' || (kind[0] == 'm' && group.rank() % 2 == 1))) {
      memory = reinterpret_cast<T*>(shared->get());
      if (!parts.empty()) std::memcpy(memory, parts.data(), parts.size() * sizeof(T));
    }
    const auto notes = std::make_shared<Notes>(Notes{absl::StrCat("rank ", group.rank()), {}});
    const absl::Status status = group.SumPartials(memory, count, dtype, plan, nullptr, notes)->Wait();
    ASSERT_TRUE(status.ok()) << where << ": " << status;
    ASSERT_TRUE(count == 0 || std::memcmp(memory, expected.data(), count * sizeof(T)) == 0)
        << where << ", " << kind;
    for (int rank = 0; rank < group.size(); ++rank)
      ASSERT_EQ(notes->all[static_cast<size_t>(rank)], absl::StrCat("rank ", rank)) << where;
  }
}

class GroupTreeTest : public ::testing::TestWithParam<Layout> {};

TEST_P(GroupTreeTest, SumHasTheBitsOfOneWorker) {
  const std::vector<int>& hosts = GetParam().hosts;
  RunThreads(static_cast<int>(hosts.size()), [&](const RankContext& context) {
    auto group = context.Connect("7.abc", hosts, /*slot_bytes=*/64 << 10);
    ASSERT_TRUE(group.ok()) << group.status();
    for (const int64_t leaves : {1, 4, 7, 12, 13, 16}) {
      for (const int64_t filled : {leaves, (leaves + 1) / 2, int64_t{1}}) {
        for (const size_t count : {0, 3, 1000, 70001}) {
          ASSERT_NO_FATAL_FAILURE(CheckTreeSum<float>(**group, DataType::kFloat32, leaves, filled, count));
          if (count == 70001) continue;
          ASSERT_NO_FATAL_FAILURE(CheckTreeSum<double>(**group, DataType::kFloat64, leaves, filled, count));
        }
      }
    }
    ASSERT_TRUE((*group)->Barrier()->Wait().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, GroupTreeTest,
                         ::testing::Values(Layout{"two", {0, 0}}, Layout{"three", {0, 0, 0}},
                                           Layout{"two_and_one", {0, 0, 1}}, Layout{"apart", {0, 1, 2, 3}},
                                           Layout{"five", {0, 0, 1, 1, 1}},
                                           Layout{"two_of_two", {0, 0, 1, 1}},
                                           Layout{"turns", {0, 1, 1, 0, 2}}),
                         [](const auto& layout) { return layout.param.name; });

TEST(GroupTreeTest, AnotherPlanIsAnotherCall) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0}, std::vector<int>{0, 1}}) {
    RunThreads(2, [&](const RankContext& context) {
      auto group = context.Connect("1.a", hosts);
      ASSERT_TRUE(group.ok()) << group.status();
      const int64_t leaves = context.rank == 0 ? 4 : 6;
      const auto plan = std::make_shared<TreePlan>(PlanTree(LeafShares(leaves, 2), leaves, leaves));
      float one = 1;
      const absl::Status status = (*group)->SumPartials(&one, 1, DataType::kFloat32, plan)->Wait();
      EXPECT_THAT(status.message(), testing::HasSubstr("ranks make different calls"));
    });
  }
}

TEST(GroupTreeTest, SumOfIntegersOrOfAnotherWorldIsRefused) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    double one = 1;
    const auto two = std::make_shared<TreePlan>(PlanTree(LeafShares(4, 2), 4, 4));
    const auto three = std::make_shared<TreePlan>(PlanTree(LeafShares(4, 3), 4, 4));
    EXPECT_EQ((*group)->SumPartials(&one, 1, DataType::kInt64, two)->Wait().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ((*group)->SumPartials(&one, 1, DataType::kFloat64, three)->Wait().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(ReduceOnes(**group).ok()) << "the group continues";
  });
}

}  // namespace
}  // namespace mtrun::collectives
