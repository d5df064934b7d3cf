#include "trainers/engine/step.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/engine/support/rank_threads.h"

namespace mtrun::engine {
namespace {

using ::testing::HasSubstr;
using testing::RunRanks;

/// 5 samples a step in shards of 2, 2 and 1; sample i is the number i + 1 with label 0. One shard may be
/// poisoned.
class Numbers : public ShardSource {
 public:
  explicit Numbers(int64_t poisoned = -1) : poisoned_(poisoned) {}
  int64_t shards() const override { return 4; }  // the last one is always empty
  int64_t SamplesInStep(int64_t) const override { return 5; }
  int64_t SamplesInShard(int64_t, int64_t shard) const override {
    return std::clamp<int64_t>(5 - 2 * shard, 0, 2);
  }
  Batch Make(int64_t step, int64_t shard) override {
    const int64_t n = SamplesInShard(step, shard);
    at::Tensor images = (at::arange(n, at::kFloat) + (2 * shard + 1)).unsqueeze(1);
    if (shard == poisoned_) images.fill_(std::numeric_limits<float>::quiet_NaN());
    return {images, at::zeros({n}, at::kLong)};
  }

 private:
  const int64_t poisoned_;
};

/// logits = weight * x (two columns); loss = mean of column 0: its gradient is the mean of x over the step.
struct Scale : torch::nn::Module {
  Scale() : weight(register_parameter("weight", at::ones({1, 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
  at::Tensor weight;
};

const MeanLoss kMeanOfFirst = [](const at::Tensor& logits, const at::Tensor&) {
  return logits.select(1, 0).mean();
};

TEST(Step, UpdatesByTheMeanOverAllSamplesAtAnyWorldSize) {
  for (const int world : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE(world);
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      const auto net = std::make_shared<Scale>();
      const Model model = AsModel(net);
      Numbers source;
      DataParallel dp(net->parameters(), group, StepRunner::kStats);
      const auto optimizer = MakeOptimizer({}, net->parameters(), dp.gradients());
      StepRunner runner(model, kMeanOfFirst, source, dp, *optimizer);
      const auto first = runner.Run(0, rank, world, 0.1);
      ASSERT_TRUE(first.ok()) << first.status();
      EXPECT_FLOAT_EQ(first->loss, 3);
      EXPECT_EQ(first->samples, 5);
      EXPECT_EQ(first->correct, 5) << "equal columns: the first class wins, which is the label";
      EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.7f);
      const auto second = runner.Run(1, rank, world, 0.1);
      ASSERT_TRUE(second.ok());
      EXPECT_FLOAT_EQ(second->loss, 3 * 0.7f);
      EXPECT_EQ(second->correct, 0) << "the second column is larger now";
    });
  }
}

TEST(Step, ALossThatIsNotFiniteStopsEverybodyAndUpdatesNothing) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto net = std::make_shared<Scale>();
    const Model model = AsModel(net);
    Numbers source(/*poisoned=*/2);
    DataParallel dp(net->parameters(), group, StepRunner::kStats);
    const auto optimizer = MakeOptimizer({}, net->parameters(), dp.gradients());
    StepRunner runner(model, kMeanOfFirst, source, dp, *optimizer);
    const auto result = runner.Run(41, rank, 2, 0.1);
    ASSERT_FALSE(result.ok());
    const std::string text(result.status().message());
    EXPECT_THAT(text, HasSubstr("loss of step 41 is nan"));
    EXPECT_THAT(text, HasSubstr(rank == 1 ? "in shard 2" : "another worker"));
    EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2})));
  });
}

TEST(Step, AnExceptionOfTheNetworkIsAStatusWithTheStep) {
  const auto net = std::make_shared<Scale>();
  Model model = AsModel(net);
  model.forward = [](const at::Tensor& x) { return x.matmul(at::ones({7, 7})); };
  Numbers source;
  DataParallel dp(net->parameters(), nullptr, StepRunner::kStats);
  const auto optimizer = MakeOptimizer({}, net->parameters(), dp.gradients());
  StepRunner runner(model, kMeanOfFirst, source, dp, *optimizer);
  EXPECT_THAT(std::string(runner.Run(3, 0, 1, 0.1).status().message()), HasSubstr("step 3"));
}

}  // namespace
}  // namespace mtrun::engine
