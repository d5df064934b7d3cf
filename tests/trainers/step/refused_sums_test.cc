#include "trainers/step/refused_sums.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/step/train_step.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

TEST(RefusedSums, SumsOtherThanTheStepsAreReported) {
  RefusedSums sums;
  EXPECT_EQ(sums.Settle(7, 3), "") << "nothing was refused";
  sums.Refuse(7, 1e6);
  EXPECT_EQ(sums.Settle(7, 3),
            "step 7: an aborted device had left 1e+06 instead of 3 in its sums, which were not applied");
  EXPECT_EQ(sums.Settle(7, 3), "") << "once";
  sums.Refuse(8, std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(sums.Settle(8, 3), "");
}

TEST(RefusedSums, EqualSumsAndThoseOfAnotherStepAreNotReported) {
  RefusedSums sums;
  sums.Refuse(7, 3.0000001);
  EXPECT_EQ(sums.Settle(7, 3), "");
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  sums.Refuse(7, kInfinite);
  EXPECT_EQ(sums.Settle(7, std::numeric_limits<double>::quiet_NaN()), "") << "half precision overflows again";
  sums.Refuse(7, 3);
  EXPECT_NE(sums.Settle(7, kInfinite), "");
  sums.Refuse(7, 1e6);
  EXPECT_EQ(sums.Settle(8, 3), "") << "the others had committed it, and this one received it";
}

/// A source of one sample a micro-batch, two a step.
struct TwoOnes : MicroBatchSource {
  int64_t micro_batches() const override { return 2; }
  int64_t SamplesInStep(int64_t) const override { return 2; }
  int64_t SamplesInMicroBatch(int64_t, int64_t) const override { return 1; }
  Batch Make(int64_t step, int64_t micro_batch) override {
    datasets::SampleSum samples;
    samples.Add(step * 2 + micro_batch);
    return {at::ones({1, 1}), at::zeros({1}, at::kLong), samples};
  }
};

struct TwoScores : torch::nn::Module {
  TwoScores() : weight(register_parameter("weight", at::ones({1, 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
  at::Tensor weight;
};

/// If the others refuse the commit, the device's sums are still known, and are compared when the step is
/// repeated.
TEST(RefusedSums, IncludeSumsReadBeforeTheOthersRefused) {
  const auto network = testing::FakeNetwork::Make(2);
  const auto device = [&](const collectives::GroupMember& member,
                          const std::shared_ptr<collectives::Bootstrap>&) {
    return network->DeviceOf(member.rank);
  };
  testing::RunRanksWithDevices(2, device, [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    const auto net = std::make_shared<TwoScores>();
    ClassifierTask task(
        AsModel(net), [](const at::Tensor& logits, const at::Tensor&) { return logits.select(1, 0).mean(); },
        2);
    TwoOnes source;
    TrainState state(*net, {});
    DataParallel sums(state.trained(), *group);
    RefusedSums refused;
    bool refuse = true;
    TrainStep step(task, source, sums, state,
                   {.exchange =
                        [&](const auto& all, const std::string& own) {
                          using Records = absl::StatusOr<std::vector<std::string>>;
                          return std::exchange(refuse, false) ? Records(absl::UnavailableError("a test"))
                                                              : collectives::CommitNotes(all, own);
                        },
                    .refused = &refused});
    EXPECT_FALSE(step.Run(0, rank, 2, 0.1).ok());
    RefusedSums as_it_is = refused, compared = refused;
    EXPECT_EQ(as_it_is.Settle(0, 1), "") << "the gradient of the mean over both: 1 and 0";
    EXPECT_NE(compared.Settle(0, 2), "");
    const auto again = step.Run(0, rank, 2, 0.1);
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(refused.Settle(0, 2), "") << "it has come again";
  });
}

}  // namespace
}  // namespace mtrun::trainers
