#include "trainers/parallel/data_parallel.h"

#include <atomic>
#include <limits>

#include <gtest/gtest.h>

#include "tests/trainers/support/rank_threads.h"

namespace mtrun::trainers {
namespace {

using testing::RunRanks;

std::vector<at::Tensor> Parameters() {
  return {at::ones({3, 2}).requires_grad_(), at::ones({100}).requires_grad_(),
          at::ones({7}).requires_grad_()};
}

/// A loss whose gradient for every element of parameter i is (i + 1) * factor.
at::Tensor Loss(const std::vector<at::Tensor>& parameters, double factor) {
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < parameters.size(); ++i)
    loss = loss + parameters[i].sum() * (static_cast<double>(i + 1) * factor);
  return loss;
}

void ExpectGradients(const DataParallel& dp, double factor) {
  for (size_t i = 0; i < dp.gradients().size(); ++i) {
    const at::Tensor& g = dp.gradients()[i];
    EXPECT_TRUE(g.equal(at::full_like(g, static_cast<double>(i + 1) * factor)))
        << "parameter " << i << ": " << g;
  }
}

TEST(DataParallel, AloneItOnlyKeepsFlatGradients) {
  const auto parameters = Parameters();
  DataParallel dp(parameters, nullptr);
  for (int step = 0; step < 3; ++step) {
    dp.BeginStep();
    dp.SetNote("alone");
    dp.LastRound();
    Loss(parameters, 0.5).backward();
    ASSERT_TRUE(dp.FinishStep().ok());
    ExpectGradients(dp, 0.5);
    EXPECT_EQ(dp.notes(), std::vector<std::string>{"alone"});
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(parameters[i].grad().is_alias_of(dp.gradients()[i]));
  }
}

TEST(DataParallel, SeesAGradientThatIsNotFiniteAndNoOther) {
  const auto parameters = Parameters();
  DataParallel dp(parameters, nullptr, /*bucket_bytes=*/1);
  const auto finite_with = [&](float value) {
    dp.BeginStep();
    for (const at::Tensor& gradient : dp.gradients()) gradient.fill_(1);
    dp.gradients()[1].narrow(0, 40, 2).fill_(value);
    return dp.GradientsAreFinite(dp.BucketSums());
  };
  EXPECT_TRUE(finite_with(-3));
  EXPECT_TRUE(finite_with(3e38F)) << "their sum overflows, they do not";
  EXPECT_FALSE(finite_with(std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(finite_with(std::numeric_limits<float>::quiet_NaN()));
}

/// What rank `rank` says in a step.
std::string Note(int rank, int step) { return absl::StrCat("rank ", rank, " in step ", step); }

std::vector<std::string> NotesOf(int world, int step) {
  std::vector<std::string> notes;
  for (int rank = 0; rank < world; ++rank) notes.push_back(Note(rank, step));
  return notes;
}

/// Bucket sizes from "one bucket" to "one for each parameter"; several rounds; notes; several steps with the
/// same buffers.
TEST(DataParallel, SumsOverWorkersAndRounds) {
  for (const int64_t bucket_bytes : {1, 200, 1 << 20}) {
    for (const int world : {2, 3}) {
      SCOPED_TRACE(absl::StrCat("bucket of ", bucket_bytes, " bytes, world ", world));
      RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
        const auto parameters = Parameters();
        DataParallel dp(parameters, group, bucket_bytes);
        for (int step = 0; step < 5; ++step) {
          dp.BeginStep();
          Loss(parameters, 1).backward();
          dp.SetNote(Note(rank, step));
          dp.LastRound();
          Loss(parameters, rank + 1).backward();
          ASSERT_TRUE(dp.FinishStep().ok());
          ExpectGradients(dp, world + world * (world + 1) / 2);
          EXPECT_EQ(dp.notes(), NotesOf(world, step));
        }
      });
    }
  }
}

TEST(DataParallel, AnIdleMemberAddsNothing) {
  RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 200);
    dp.BeginStep();
    dp.SetNote(Note(rank, 0));
    if (rank != 1) {
      dp.LastRound();
      Loss(parameters, 2).backward();
    }
    ASSERT_TRUE(dp.FinishStep().ok());
    ExpectGradients(dp, 4);
    EXPECT_EQ(dp.notes(), NotesOf(3, 0)) << "but it says what it has to say";
  });
}

/// Statistics beside the gradients, of another dtype; an idle member's are there too.
TEST(DataParallel, OtherTensorsAreSummedAlong) {
  RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 200);
    const at::Tensor also = at::zeros({5}, at::kDouble);
    dp.SumAlso(also);
    dp.SumAlso(at::zeros({0}));
    for (int step = 0; step < 3; ++step) {
      dp.BeginStep();
      also.fill_(rank + step);
      if (rank != 1) {
        dp.LastRound();
        Loss(parameters, 2).backward();
      }
      ASSERT_TRUE(dp.FinishStep().ok());
      ExpectGradients(dp, 4);
      EXPECT_TRUE(also.equal(at::full({5}, 3.0 + 3 * step, at::kDouble)));
    }
  });
}

TEST(DataParallel, GradientsHaveTheirParametersStrides) {
  const at::Tensor weight =
      at::ones({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  DataParallel dp({weight, at::ones({2}).requires_grad_()}, nullptr);
  EXPECT_EQ(dp.gradients()[0].strides(), weight.strides());
  dp.BeginStep();
  dp.LastRound();
  (weight * at::arange(48, at::kFloat).view({4, 3, 2, 2})).sum().backward();
  EXPECT_TRUE(dp.gradients()[0].equal(at::arange(48, at::kFloat).view({4, 3, 2, 2})));
}

TEST(DataParallel, AParameterThatALossDoesNotUseIsReducedAllTheSame) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 1);
    dp.BeginStep();
    dp.LastRound();
    // Rank 0 uses all, rank 1 only the first: the order of completion differs, the order of the reductions
    // must not.
    (rank == 0 ? Loss(parameters, 1) : parameters[0].sum()).backward();
    ASSERT_TRUE(dp.FinishStep().ok());
    EXPECT_TRUE(dp.gradients()[0].equal(at::full({3, 2}, 2.0)));
    EXPECT_TRUE(dp.gradients()[2].equal(at::full({7}, 3.0)));
  });
}

TEST(DataParallel, AnAbortedGroupIsAStatus) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group);
    dp.BeginStep();
    collectives::AbortGroup(group, "the test says so");
    const absl::Status status = dp.FinishStep();
    EXPECT_FALSE(status.ok()) << "rank " << rank;
  });
}

}  // namespace
}  // namespace mtrun::trainers
