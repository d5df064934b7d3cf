#include "trainers/run/train_inputs.h"

#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

struct Pass : torch::nn::Module {
  Pass() : weight(register_parameter("weight", at::ones({1}))) {}
  at::Tensor forward(const at::Tensor& x) { return x * weight; }
  at::Tensor weight;
};

/// A micro-batch's loss is weighted by its part of the step before its backward pass: its gradients are
/// smaller by as much, and fp16 has no more digits for them.
TEST(TrainInputs, TheFirstLossScaleGrowsWithTheMicroBatchesOfAStep) {
  const support::TemporaryFolder folder;
  const std::string data =
      testing::WritePackedSet(folder.path(), "set", {.height = 2, .width = 2}, testing::VariedPixel);
  const auto train = datasets::PackedSplit::Open(data, "train");
  const auto test = datasets::PackedSplit::Open(data, "test");
  ASSERT_TRUE(train.ok() && test.ok()) << train.status() << test.status();
  const std::string program = "toy";
  const std::unique_ptr<Task> task = Classify(AsModel(std::make_shared<Pass>()), 10);
  const auto scaling = [&](datasets::BatchPlan plan, Precision precision) {
    TrainOptions options;
    options.plan = plan;
    return StateOptions({.program = program,
                         .options = options,
                         .train = *train,
                         .test = *test,
                         .task = *task,
                         .batch = {},
                         .precision = precision,
                         .identity = {},
                         .settings = "",
                         .finish = nullptr})
        .loss_scaling;
  };
  using Plan = datasets::BatchPlan;
  ASSERT_TRUE(scaling(Plan{.global_batch = 12, .micro_batch = 12}, Precision::kFp16));
  EXPECT_EQ(scaling(Plan{.global_batch = 12, .micro_batch = 12}, Precision::kFp16)->initial_scale, 65536);
  EXPECT_EQ(scaling(Plan{.global_batch = 12, .micro_batch = 3}, Precision::kFp16)->initial_scale, 65536 * 4);
  EXPECT_FALSE(scaling(Plan{.global_batch = 12, .micro_batch = 3}, Precision::kBf16));
}

}  // namespace
}  // namespace mtrun::trainers
