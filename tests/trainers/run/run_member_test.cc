#include "trainers/run/loop/run_member.h"

#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/thread_job.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

struct Pass : torch::nn::Module {
  Pass() : weight(register_parameter("weight", at::ones({1}))) {}
  at::Tensor forward(const at::Tensor& x) { return x * weight; }
  at::Tensor weight;
};

class RunMemberTest : public ::testing::Test {
 protected:
  TrainInputs InputsOf(const TrainOptions& options, Precision precision = Precision::kFp32) const {
    return {.program = program_,
            .options = options,
            .train = *train_,
            .test = *test_,
            .task = *task_,
            .batch = {},
            .precision = precision,
            .identity = {},
            .settings = "",
            .finish = nullptr};
  }

  const support::TemporaryFolder folder_;
  const std::string data_ =
      testing::WritePackedSet(folder_.path(), "set", {.height = 2, .width = 2}, testing::VariedPixel);
  const absl::StatusOr<datasets::PackedSplit> train_ = datasets::PackedSplit::Open(data_, "train");
  const absl::StatusOr<datasets::PackedSplit> test_ = datasets::PackedSplit::Open(data_, "test");
  const std::string program_ = "toy";
  const std::unique_ptr<Task> task_ = Classify(AsModel(std::make_shared<Pass>()), 10);
};

/// The loss of a micro-batch is weighted by its share of the step before its backward pass. Its gradients
/// shrink accordingly, beyond the digits of fp16.
TEST_F(RunMemberTest, FirstLossScaleGrowsWithTheMicroBatchesOfAStep) {
  const auto scaling = [&](datasets::BatchPlan plan, Precision precision) {
    TrainOptions options;
    options.plan = plan;
    return StateOptions(InputsOf(options, precision)).loss_scaling;
  };
  using Plan = datasets::BatchPlan;
  ASSERT_TRUE(scaling(Plan{.global_batch = 12, .micro_batch = 12}, Precision::kFp16));
  EXPECT_EQ(scaling(Plan{.global_batch = 12, .micro_batch = 12}, Precision::kFp16)->initial_scale, 65536);
  EXPECT_EQ(scaling(Plan{.global_batch = 12, .micro_batch = 3}, Precision::kFp16)->initial_scale, 65536 * 4);
  EXPECT_FALSE(scaling(Plan{.global_batch = 12, .micro_batch = 3}, Precision::kBf16));
}

TEST_F(RunMemberTest, ReportFollowsTheStateThatIsHeld) {
  TrainOptions options;
  options.model_folder = folder_.path();
  options.plan = {.global_batch = 4, .micro_batch = 2};
  testing::ThreadJob job({0});
  testing::ThreadMembership membership(job, 0);
  ASSERT_TRUE(membership.Enter().ok());
  ProgressLine progress(/*quiet=*/true, {});
  RunMember run(InputsOf(options), membership, progress, MonotonicNow() - std::chrono::seconds(100));
  EXPECT_EQ(run.Report().BestSteps(), std::nullopt);
  RunProgress& done = run.replica.progress();
  done.samples = 40;
  EXPECT_EQ(run.Report().images_per_second, 0) << "no epoch has ended";
  done.history = {{.steps = 5, .epoch = 1, .test_accuracy = 0.5, .seconds = 3, .classified = true},
                  {.steps = 10, .epoch = 2, .test_accuracy = 0.4, .seconds = 5, .classified = true}};
  done.confusion = {2, 1, 0, 3};
  const RunReport report = run.Report();
  EXPECT_EQ(report.program, "toy");
  EXPECT_EQ(report.BestSteps(), 5);
  EXPECT_EQ(report.history, done.history);
  EXPECT_EQ(report.matrix.counts(), done.confusion);
  EXPECT_EQ(report.training_seconds, 8);
  EXPECT_EQ(report.images_per_second, 5);
  EXPECT_EQ(report.micro_batch, 2);
  EXPECT_GE(report.seconds, 100);
  done = {};
  EXPECT_EQ(run.Report().BestSteps(), std::nullopt) << "another state was taken over";
}

}  // namespace
}  // namespace mtrun::trainers
