#include "trainers/run/state_sync.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/support/rank_threads.h"

namespace mtrun::trainers {
namespace {

using testing::RunRanks;

/// Tensors of every layout that a run holds: plain, with gradient, strided, empty.
std::vector<at::Tensor> Tensors(double value) {
  return {at::full({3, 2}, value).requires_grad_(), at::full({100}, value), at::full({4, 3}, value).t(),
          at::zeros({0})};
}

TEST(StateSync, TheSourcesValuesGoToAll) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    const std::vector<at::Tensor> tensors = Tensors(rank + 5);
    std::string text = absl::StrCat("progress of ", rank);
    ASSERT_TRUE(TakeOver(group, rank, /*source=*/1, tensors, text).ok());
    for (const at::Tensor& t : tensors) EXPECT_TRUE(t.detach().equal(at::full_like(t.detach(), 6)));
    EXPECT_EQ(text, "progress of 1");
  });
}

TEST(StateSync, ADigestTellsOtherValues) {
  EXPECT_EQ(DigestOf(Tensors(1)), DigestOf(Tensors(1)));
  EXPECT_NE(DigestOf(Tensors(1)), DigestOf(Tensors(2)));
}

TEST(StateSync, OneMembersFlagIsEverybodys) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    EXPECT_EQ(*FirstMember(group, rank >= 1), 1);
    EXPECT_EQ(*FirstMember(group, rank == 0), 0);
    EXPECT_EQ(*FirstMember(group, false), std::nullopt);
  });
}

}  // namespace
}  // namespace mtrun::trainers
