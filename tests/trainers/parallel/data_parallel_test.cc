#include "trainers/parallel/data_parallel.h"

#include <atomic>
#include <limits>

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/parallel/buckets.h"

namespace mtrun::trainers {
namespace {

using testing::RunRanks;

std::vector<at::Tensor> Parameters() {
  return {at::ones({3, 2}).requires_grad_(), at::ones({100}).requires_grad_(),
          at::ones({7}).requires_grad_()};
}

/// Returns a loss whose gradient for every element of parameter i is (i + 1) * factor.
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

constexpr DataParallel::Gradients kKinds[] = {DataParallel::Gradients::kFree,
                                              DataParallel::Gradients::kFixed};

/// Covers one and several passes, in successive steps, with and without fixed gradient tensors.
TEST(DataParallel, GradientsOfASingleWorkerMatchAutograd) {
  for (const DataParallel::Gradients kind : kKinds) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, nullptr, DataParallel::kDefaultBucketBytes, kind);
    EXPECT_EQ(dp.gradients_stay(), kind == DataParallel::Gradients::kFixed);
    for (int step = 0; step < 3; ++step) {
      dp.BeginStep();
      dp.SetNote("alone");
      for (int pass = 0; pass < step; ++pass) Loss(parameters, 1).backward();
      dp.LastRound();
      Loss(parameters, 0.5).backward();
      ASSERT_TRUE(dp.FinishStep().ok());
      ExpectGradients(dp, step + 0.5);
      EXPECT_EQ(dp.notes(), std::vector<std::string>{"alone"});
      for (size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(parameters[i].grad().is_alias_of(dp.gradients()[i]));
    }
  }
}

/// The gradient is neither added to zeros nor copied.
TEST(DataParallel, SingleWorkerUsesTheGradientOfOnePassDirectly) {
  const at::Tensor weight = at::ones({40}).requires_grad_();
  const void* made = nullptr;
  weight.register_hook([&](const at::Tensor& gradient) { made = gradient.const_data_ptr(); });
  DataParallel dp({weight}, nullptr);
  dp.BeginStep();
  dp.LastRound();
  (weight * at::arange(40, at::kFloat)).sum().backward();
  ASSERT_TRUE(dp.FinishStep().ok());
  EXPECT_EQ(dp.gradients()[0].const_data_ptr(), made);
}

TEST(DataParallel, UnusedParameterOfASingleWorkerHasZeroGradient) {
  const auto parameters = Parameters();
  DataParallel dp(parameters, nullptr);
  for (int step = 0; step < 2; ++step) {
    dp.BeginStep();
    dp.LastRound();
    (step == 0 ? Loss(parameters, 1) : parameters[0].sum()).backward();
    ASSERT_TRUE(dp.FinishStep().ok());
  }
  EXPECT_TRUE(dp.gradients()[0].equal(at::ones({3, 2})));
  EXPECT_TRUE(dp.gradients()[2].equal(at::zeros({7})));
}

TEST(DataParallel, DetectsOnlyNonFiniteGradients) {
  for (const DataParallel::Gradients kind : kKinds) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, nullptr, /*bucket_bytes=*/1, kind);
    const auto finite_with = [&](float value) {
      dp.BeginStep();
      EXPECT_TRUE(dp.FinishStep().ok());
      for (const at::Tensor& gradient : dp.gradients()) gradient.fill_(1);
      dp.gradients()[1].narrow(0, 40, 2).fill_(value);
      return dp.GradientsAreFinite(dp.Sums());
    };
    EXPECT_TRUE(finite_with(-3));
    EXPECT_TRUE(finite_with(3e38F)) << "their sum overflows, they do not";
    EXPECT_FALSE(finite_with(std::numeric_limits<float>::infinity()));
    EXPECT_FALSE(finite_with(std::numeric_limits<float>::quiet_NaN()));
  }
}

/// Returns the note of rank `rank` in a step.
std::string Note(int rank, int step) { return absl::StrCat("rank ", rank, " in step ", step); }

std::vector<std::string> NotesOf(int world, int step) {
  std::vector<std::string> notes;
  for (int rank = 0; rank < world; ++rank) notes.push_back(Note(rank, step));
  return notes;
}

/// Covers one bucket for all to one per parameter, several rounds, notes, and reused buffers.
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

/// Rank 1 makes the calls by hand. The first sum is done while rank 0 still computes its last gradient. The
/// notes ride with the last sum.
TEST(DataParallel, FirstBucketIsSummedDuringTheBackwardPass) {
  absl::Notification summed;
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    if (rank == 0) {
      DataParallel dp(parameters, group, /*bucket_bytes=*/1);
      bool overlaps = false;
      parameters[0].register_hook(
          [&](const at::Tensor&) { overlaps = summed.WaitForNotificationWithTimeout(absl::Seconds(30)); });
      dp.BeginStep();
      dp.SetNote("a");
      dp.LastRound();
      Loss(parameters, 1).backward();
      ASSERT_TRUE(dp.FinishStep().ok());
      EXPECT_TRUE(overlaps);
      return ExpectGradients(dp, 1);
    }
    const std::vector<Bucket> buckets = PlanBuckets({6, 100, 7}, 0);
    ASSERT_EQ(buckets.size(), 3u);
    collectives::AllReduce(group, at::zeros({buckets[0].numel}));
    summed.Notify();
    collectives::AllReduce(group, at::zeros({buckets[1].numel}));
    const auto notes = std::make_shared<collectives::Notes>();
    notes->own = "b";
    collectives::StartAllReduce(group, at::zeros({buckets[2].numel}), notes)->wait();
    EXPECT_EQ(notes->all, (std::vector<std::string>{"a", "b"}));
  });
}

/// The buckets may still hold the sums of the previous step.
TEST(DataParallel, IdleMemberAddsNothing) {
  for (const DataParallel::Gradients kind : kKinds) {
    RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
      const auto parameters = Parameters();
      DataParallel dp(parameters, group, 200, kind);
      for (int step = 0; step < 3; ++step) {
        dp.BeginStep();
        dp.SetNote(Note(rank, step));
        if (rank != step) {
          dp.LastRound();
          Loss(parameters, 2).backward();
        }
        ASSERT_TRUE(dp.FinishStep().ok());
        ExpectGradients(dp, 4);
        EXPECT_EQ(dp.notes(), NotesOf(3, step)) << "but it says what it has to say";
      }
    });
  }
}

/// A gradient from any pass counts.
TEST(DataParallel, PassesCanUseDifferentParameters) {
  RunRanks(2, [&](int, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 1);
    for (int step = 0; step < 2; ++step) {
      dp.BeginStep();
      parameters[0].sum().backward();
      parameters[1].sum().backward();
      dp.LastRound();
      (parameters[1].sum() * 2).backward();
      ASSERT_TRUE(dp.FinishStep().ok());
      EXPECT_TRUE(dp.gradients()[0].equal(at::full({3, 2}, 2.0)));
      EXPECT_TRUE(dp.gradients()[1].equal(at::full({100}, 6.0)));
      EXPECT_TRUE(dp.gradients()[2].equal(at::zeros({7})));
    }
  });
}

/// Statistics of another dtype are summed with the gradients, including those of an idle member.
TEST(DataParallel, OtherTensorsAreSummedWithTheGradients) {
  RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 200);
    const at::Tensor also = at::zeros({5}, at::kDouble);
    dp.AddReducedTensor(also);
    dp.AddReducedTensor(at::zeros({0}));
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

/// The second parameter's dimension of size 1 may have any stride, and autograd uses another one.
TEST(DataParallel, GradientsHaveTheirParametersStrides) {
  for (const DataParallel::Gradients kind : kKinds) {
    const at::Tensor weight =
        at::ones({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    const at::Tensor odd = at::ones({4}).as_strided({4, 1}, {1, 7}).requires_grad_();
    DataParallel dp({weight, odd}, nullptr, DataParallel::kDefaultBucketBytes, kind);
    dp.BeginStep();
    dp.LastRound();
    ((weight * at::arange(48, at::kFloat).view({4, 3, 2, 2})).sum() + (odd * at::full({4, 1}, 2)).sum())
        .backward();
    ASSERT_TRUE(dp.FinishStep().ok());
    EXPECT_EQ(dp.gradients()[0].strides(), weight.strides());
    EXPECT_TRUE(dp.gradients()[0].equal(at::arange(48, at::kFloat).view({4, 3, 2, 2})));
    EXPECT_EQ(dp.gradients()[1].strides(), odd.strides());
    EXPECT_TRUE(dp.gradients()[1].equal(at::full({4, 1}, 2.0F)));
  }
}

TEST(DataParallel, UnusedParameterIsReducedAnyway) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = Parameters();
    DataParallel dp(parameters, group, 1);
    dp.BeginStep();
    dp.LastRound();
    // Rank 0 uses all parameters, rank 1 only the first: the order of reductions must still be the same.
    (rank == 0 ? Loss(parameters, 1) : parameters[0].sum()).backward();
    ASSERT_TRUE(dp.FinishStep().ok());
    EXPECT_TRUE(dp.gradients()[0].equal(at::full({3, 2}, 2.0)));
    EXPECT_TRUE(dp.gradients()[2].equal(at::full({7}, 3.0)));
  });
}

TEST(DataParallel, AbortedGroupGivesAnErrorStatus) {
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
