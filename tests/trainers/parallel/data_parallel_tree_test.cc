// Gradients whose bits do not depend on the number of workers.
#include <mutex>

#include <gtest/gtest.h>

#include "tests/trainers/support/rank_threads.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/parallel/partition.h"

namespace mtrun::trainers {
namespace {

using testing::RunRanks;

std::vector<at::Tensor> TreeParameters(at::ScalarType dtype) {
  std::vector<at::Tensor> parameters;
  for (const at::IntArrayRef& sizes : {at::IntArrayRef{3, 2}, at::IntArrayRef{100}, at::IntArrayRef{7}})
    parameters.push_back(at::ones(sizes, dtype).requires_grad_());
  return parameters;
}

/// Returns the loss of a micro-batch, whose gradients are random numbers. One in three does not use the
/// second parameter.
at::Tensor TreeLoss(const std::vector<at::Tensor>& parameters, int64_t micro_batch) {
  torch::NoGradGuard no_grad;
  at::Generator random = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(micro_batch) + 1);
  std::vector<at::Tensor> factors;
  for (const at::Tensor& parameter : parameters)
    factors.push_back(at::randn(parameter.sizes(), random, parameter.options().requires_grad(false)));
  torch::AutoGradMode with_grad(true);
  at::Tensor loss = (parameters[0] * factors[0]).sum() + (parameters[2] * factors[2]).sum();
  if (micro_batch % 3 != 2) loss = loss + (parameters[1] * factors[1]).sum();
  return loss;
}

struct TreeSums {
  std::vector<at::Tensor> gradients;
  at::Tensor reduced;
};

bool HaveSameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

/// Returns a worker's sums after two steps: the second one has `filled` micro-batches.
TreeSums TrainWithTree(int rank, int world, const collectives::ProcessGroup& group, int64_t micro_batches,
                       int64_t filled, at::ScalarType dtype, int64_t bucket_bytes) {
  const auto parameters = TreeParameters(dtype);
  DataParallel dp(parameters, group, bucket_bytes, DataParallel::Gradients::kFree, micro_batches);
  EXPECT_TRUE(dp.sums_in_tree());
  const at::Tensor reduced = at::zeros({4}, at::kDouble);
  dp.AddReducedTensor(reduced);
  const MicroBatchRange own = MicroBatchesOf(micro_batches, rank, world);
  for (const int64_t exist : {micro_batches, filled}) {
    dp.BeginStep(exist);
    reduced.zero_();
    dp.SetNote(absl::StrCat("rank ", rank));
    for (int64_t at = own.begin; at < std::min(own.end, exist); ++at) {
      at::Tensor loss = TreeLoss(parameters, at);
      reduced.add_(loss.item<double>() / 3);
      if (at + 1 == std::min(own.end, exist)) dp.LastRound();
      loss.backward();
      dp.EndPass();
    }
    const absl::Status done = dp.FinishStep();
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_EQ(dp.notes().size(), static_cast<size_t>(world));
  }
  TreeSums sums{{}, reduced.clone()};
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(dp.gradients()[i].strides(), parameters[i].strides());
    EXPECT_TRUE(parameters[i].grad().is_alias_of(dp.gradients()[i]));
    sums.gradients.push_back(dp.gradients()[i].clone());
  }
  return sums;
}

TEST(DataParallelTree, BitsDoNotDependOnTheNumberOfWorkers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const int64_t micro_batches : {1, 4, 7, 12}) {
      for (const int64_t filled : {micro_batches, (micro_batches + 1) / 2}) {
        const TreeSums alone = TrainWithTree(0, 1, nullptr, micro_batches, filled, dtype, 1 << 20);
        for (const int world : {2, 3, 5}) {
          for (const int64_t bucket_bytes : {1, 1 << 20}) {
            SCOPED_TRACE(absl::StrCat(filled, " of ", micro_batches, " micro-batches, ", world, " workers"));
            RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
              const TreeSums sums =
                  TrainWithTree(rank, world, group, micro_batches, filled, dtype, bucket_bytes);
              for (size_t i = 0; i < sums.gradients.size(); ++i)
                EXPECT_TRUE(HaveSameBits(sums.gradients[i], alone.gradients[i])) << "parameter " << i;
              EXPECT_TRUE(HaveSameBits(sums.reduced, alone.reduced));
            });
          }
        }
      }
    }
  }
}

/// The sum in the order of ranks is another one, so that the test above can fail.
TEST(DataParallelTree, PassByPassTheBitsDiffer) {
  const TreeSums tree = TrainWithTree(0, 1, nullptr, 7, 7, at::kFloat, 1 << 20);
  const auto parameters = TreeParameters(at::kFloat);
  DataParallel dp(parameters, nullptr);
  dp.BeginStep();
  for (int64_t at = 0; at < 7; ++at) TreeLoss(parameters, at).backward();
  ASSERT_TRUE(dp.FinishStep().ok());
  EXPECT_FALSE(HaveSameBits(dp.gradients()[0], tree.gradients[0]));
  EXPECT_TRUE(dp.gradients()[0].allclose(tree.gradients[0]));
}

TEST(DataParallelTree, FixedGradientsHaveNoTree) {
  const auto parameters = TreeParameters(at::kFloat);
  DataParallel dp(parameters, nullptr, DataParallel::kDefaultBucketBytes, DataParallel::Gradients::kFixed, 4);
  EXPECT_FALSE(dp.sums_in_tree());
}

TEST(DataParallelTree, SingleMicroBatchIsNotCopied) {
  const at::Tensor weight = at::ones({40}).requires_grad_();
  const void* made = nullptr;
  weight.register_hook([&](const at::Tensor& gradient) { made = gradient.const_data_ptr(); });
  DataParallel dp({weight}, nullptr, DataParallel::kDefaultBucketBytes, DataParallel::Gradients::kFree, 1);
  dp.BeginStep(1);
  dp.LastRound();
  (weight * at::arange(40, at::kFloat)).sum().backward();
  dp.EndPass();
  ASSERT_TRUE(dp.FinishStep().ok());
  EXPECT_EQ(dp.gradients()[0].const_data_ptr(), made);
}

TEST(DataParallelTree, AbortedGroupGivesAnErrorStatus) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto parameters = TreeParameters(at::kFloat);
    DataParallel dp(parameters, group, DataParallel::kDefaultBucketBytes, DataParallel::Gradients::kFree, 2);
    dp.BeginStep(2);
    collectives::AbortGroup(group, "the test says so");
    const absl::Status status = dp.FinishStep();
    EXPECT_FALSE(status.ok()) << "rank " << rank;
  });
}

}  // namespace
}  // namespace mtrun::trainers
