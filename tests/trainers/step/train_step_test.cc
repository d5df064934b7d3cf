#include "trainers/step/train_step.h"

#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using testing::RunRanks;

/// Gives 5 samples a step in micro-batches of 2, 2 and 1; sample i is i + 1 with label 0. One can be
/// poisoned.
class Numbers : public MicroBatchSource {
 public:
  explicit Numbers(int64_t poisoned = -1) : poisoned_(poisoned) {}
  void Heal() { poisoned_ = -1; }
  int64_t micro_batches() const override { return 4; }  // the last one is always empty
  int64_t SamplesInStep(int64_t) const override { return 5; }
  int64_t SamplesInMicroBatch(int64_t, int64_t micro_batch) const override {
    return std::clamp<int64_t>(5 - 2 * micro_batch, 0, 2);
  }
  Batch Make(int64_t step, int64_t micro_batch) override {
    const int64_t n = SamplesInMicroBatch(step, micro_batch);
    at::Tensor images = (at::arange(n, at::kFloat) + (2 * micro_batch + 1)).unsqueeze(1);
    if (micro_batch == poisoned_) images.fill_(std::numeric_limits<float>::quiet_NaN());
    return {images, at::zeros({n}, at::kLong), Samples(2 * micro_batch, n)};
  }
  /// Returns the sum of `n` samples from `first` on.
  static datasets::SampleSum Samples(int64_t first, int64_t n) {
    datasets::SampleSum samples;
    for (int64_t id = first; id < first + n; ++id) samples.Add(id);
    return samples;
  }

 private:
  int64_t poisoned_;
};

/// logits = weight * x (two columns). The gradient of the loss, the mean of column 0, is the mean of x.
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
      ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
      Numbers source;
      TrainState state(*net, {});
      DataParallel dp(state.trained(), group);
      TrainStep runner(task, source, dp, state, {});
      const auto first = runner.Run(0, rank, world, 0.1);
      ASSERT_TRUE(first.ok()) << first.status();
      EXPECT_FLOAT_EQ(first->loss, 3);
      EXPECT_EQ(first->samples, 5);
      EXPECT_EQ(first->gathered, Numbers::Samples(0, 5));
      EXPECT_EQ(first->correct, 5) << "equal columns: the first class wins, which is the label";
      EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.7f);
      const auto second = runner.Run(1, rank, world, 0.1);
      ASSERT_TRUE(second.ok());
      EXPECT_FLOAT_EQ(second->loss, 3 * 0.7f);
      EXPECT_EQ(second->correct, 0) << "the second column is larger now";
    });
  }
}

/// Records the requested micro-batches.
class AskedNumbers : public Numbers {
 public:
  Batch Make(int64_t step, int64_t micro_batch) override {
    asked_.insert(micro_batch);
    return Numbers::Make(step, micro_batch);
  }
  Batch Empty(int64_t) override { return {at::empty({0, 1}), at::empty({0}, at::kLong)}; }
  const std::set<int64_t>& asked() const { return asked_; }

 private:
  std::set<int64_t> asked_;
};

/// If data arrive during training, the images of other micro-batches may be missing. With groups of one,
/// workers that have fewer micro-batches than others, or none, have rounds without samples.
TEST(Step, WorkerUsesOnlyItsOwnMicroBatchesInSynchronisedRounds) {
  for (const int world : {1, 2, 3, 6}) {
    for (const int64_t group_of : {1, 2, 4}) {
      SCOPED_TRACE(absl::StrCat(world, " workers, groups of ", group_of));
      RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
        const auto net = std::make_shared<Scale>();
        ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
        AskedNumbers source;
        TrainState state(*net, {});
        DataParallel dp(state.trained(), group);
        TrainStep runner(task, source, dp, state, {.sync_micro_batches = group_of});
        const auto result = runner.Run(0, rank, world, 0.1);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_FLOAT_EQ(result->loss, 3);
        EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.7f);
        std::set<int64_t> own;
        const MicroBatchRange range = MicroBatchesOf(source.micro_batches(), rank, world);
        for (int64_t v = range.begin; v < range.end; ++v) {
          if (source.SamplesInMicroBatch(0, v) > 0) own.insert(v);
        }
        EXPECT_EQ(source.asked(), own) << "rank " << rank;
      });
    }
  }
}

TEST(Step, NonFiniteLossStopsAllWorkersAndUpdatesNothing) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto net = std::make_shared<Scale>();
    ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
    Numbers source(/*poisoned=*/2);
    TrainState state(*net, {});
    DataParallel dp(state.trained(), group);
    TrainStep runner(task, source, dp, state, {});
    const auto result = runner.Run(41, rank, 2, 0.1);
    ASSERT_FALSE(result.ok());
    const std::string text(result.status().message());
    EXPECT_THAT(text, HasSubstr("loss of step 41 is nan"));
    EXPECT_THAT(text, HasSubstr(rank == 1 ? "in micro-batch 2" : "another worker"));
    EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2})));
  });
}

/// sqrt has an infinite slope at 0: the loss is finite, and the weights must stay finite.
TEST(Step, NonFiniteGradientStopsAllWorkersAndUpdatesNothing) {
  const MeanLoss root = [](const at::Tensor& logits, const at::Tensor&) {
    return (logits - logits.detach()).abs().sqrt().sum();
  };
  for (const double clip_norm : {0.0, 1.0}) {
    RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
      const auto net = std::make_shared<Scale>();
      ClassifierTask task(AsModel(net), rank == 1 ? root : kMeanOfFirst, 2);
      Numbers source;
      TrainState state(*net, {.clip_norm = clip_norm});
      DataParallel dp(state.trained(), group);
      TrainStep runner(task, source, dp, state, {});
      const auto result = runner.Run(41, rank, 2, 0.1);
      ASSERT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
      EXPECT_THAT(std::string(result.status().message()),
                  HasSubstr("the gradients of step 41 are not finite although its loss is "));
      EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2})));
    });
  }
}

/// An infinity of any worker skips the step everywhere and halves the scale, and the run continues.
TEST(Step, LossScalingSkipsAStepEverywhere) {
  RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
    const auto net = std::make_shared<Scale>();
    ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
    Numbers source(/*poisoned=*/2);
    TrainState state(*net, {.optimizer = {.kind = OptimizerOptions::Kind::kAdamW},
                            .ema_decay = 0.5,
                            .loss_scaling = GradScaler::Options{.initial_scale = 1024}});
    DataParallel dp(state.trained(), group);
    TrainStep runner(task, source, dp, state, {});
    const auto saved = [&](const std::string& name) {
      for (const auto& item : state.Rest()) {
        if (item.first == name) return item.second.max().item<double>();
      }
      ADD_FAILURE() << name;
      return 0.0;
    };
    const auto bad = runner.Run(0, rank, 3, 0.1);
    ASSERT_TRUE(bad.ok()) << bad.status();
    EXPECT_TRUE(bad->skipped);
    EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2})));
    EXPECT_EQ(saved("scaler/scale"), 512);
    EXPECT_EQ(saved("optimizer/weight.step"), 0);
    source.Heal();
    const auto good = runner.Run(1, rank, 3, 0.1);
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_FALSE(good->skipped);
    EXPECT_FLOAT_EQ(good->loss, 3);
    EXPECT_NEAR(net->weight[0][0].item<float>(), 1 - 0.1 - 0.1 * 0, 1e-3) << "Adam's first step is the rate";
    EXPECT_NEAR(saved("ema/weight"), 1, 1e-6) << "the second column has no gradient";
    EXPECT_EQ(saved("optimizer/weight.step"), 1);
  });
}

TEST(Step, LossScalingGivesUpOnADivergedNetwork) {
  const auto net = std::make_shared<Scale>();
  ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
  Numbers source(/*poisoned=*/0);
  TrainState state(*net, {.loss_scaling = GradScaler::Options{}});
  DataParallel dp(state.trained(), nullptr);
  TrainStep runner(task, source, dp, state, {});
  absl::Status last;
  int64_t step = 0;
  while (last.ok() && step < 100) last = runner.Run(step++, 0, 1, 0.1).status();
  EXPECT_EQ(step, 65);
  EXPECT_THAT(std::string(last.message()), HasSubstr("not finite at any loss scale"));
}

/// Clipping is applied to the reduced gradient, so it is the same at any world size: mean 3 becomes 1.
TEST(Step, ClipsTheReducedGradient) {
  for (const int world : {1, 3}) {
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      const auto net = std::make_shared<Scale>();
      ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
      Numbers source;
      TrainState state(*net, {.clip_norm = 1});
      DataParallel dp(state.trained(), group);
      TrainStep runner(task, source, dp, state, {});
      ASSERT_TRUE(runner.Run(0, rank, world, 0.1).ok());
      EXPECT_NEAR(net->weight[0][0].item<float>(), 0.9, 1e-5);
    });
  }
}

TEST(Step, StepWithoutPermissionToCommitChangesNothing) {
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    const auto net = std::make_shared<Scale>();
    ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
    Numbers source;
    TrainState state(*net, {});
    DataParallel dp(state.trained(), group);
    absl::Status may = absl::UnavailableError("the lease is over");
    TrainStep runner(task, source, dp, state, {.may_commit = [&] { return may; }});
    EXPECT_EQ(runner.Run(0, rank, 2, 0.1).status(), may);
    EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2})));
    may = absl::OkStatus();
    ASSERT_TRUE(runner.Run(0, rank, 2, 0.1).ok());
    EXPECT_FLOAT_EQ(net->weight[0][0].item<float>(), 0.7f);
  });
}

/// Records announcements and requests.
class Announced : public Numbers {
 public:
  Batch Make(int64_t step, int64_t micro_batch) override {
    calls += absl::StrCat(" make ", step, ".", micro_batch);
    return Numbers::Make(step, micro_batch);
  }
  void Ahead(int64_t step, int64_t micro_batch) override {
    calls += absl::StrCat(" ahead ", step, ".", micro_batch);
  }
  std::string calls;
};

TEST(Step, NextBatchIsAnnouncedBeforeEachBatchComputes) {
  const auto net = std::make_shared<Scale>();
  ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
  Announced source;
  TrainState state(*net, {});
  DataParallel dp(state.trained(), nullptr);
  TrainStep runner(task, source, dp, state, {});
  ASSERT_TRUE(runner.Run(8, 0, 1, 0.1).ok());
  EXPECT_EQ(source.calls, " make 8.0 ahead 8.1 make 8.1 ahead 8.2 make 8.2 ahead 9.0");
}

/// A device error that no thread has waited for appears here.
TEST(Step, ExceptionWhileReadingAStepBecomesAStatusWithTheStep) {
  const auto net = std::make_shared<Scale>();
  ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
  Numbers source;
  TrainState state(*net, {});
  DataParallel dp(state.trained(), nullptr);
  FaultPlan faults({{.rank = 0, .step = 3, .at = Fault::At::kRead, .action = Fault::Action::kThrow}}, 0);
  TrainStep runner(task, source, dp, state, {.faults = &faults});
  const absl::Status thrown = runner.Run(3, 0, 1, 0.1).status();
  EXPECT_THAT(std::string(thrown.message()), HasSubstr("step 3: injected fault"));
  EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2}))) << "it is not applied";
}

/// As above, with devices: the exchange of records throws.
TEST(Step, ExceptionInTheRecordExchangeBecomesAStatusWithTheStep) {
  const auto network = testing::FakeNetwork::Make(2);
  const auto devices = [&](const collectives::GroupMember& member,
                           const std::shared_ptr<collectives::Bootstrap>&) {
    return network->DeviceOf(member.rank);
  };
  testing::RunRanksWithDevices(2, devices, [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    const auto net = std::make_shared<Scale>();
    ClassifierTask task(AsModel(net), kMeanOfFirst, 2);
    Numbers source;
    TrainState state(*net, {});
    DataParallel dp(state.trained(), *group);
    const auto throws = [](const auto&, const auto&) -> absl::StatusOr<std::vector<std::string>> {
      throw std::runtime_error("an asynchronous error");
    };
    TrainStep runner(task, source, dp, state, {.exchange = throws});
    const absl::Status thrown = runner.Run(3, rank, 2, 0.1).status();
    EXPECT_THAT(std::string(thrown.message()), HasSubstr("step 3: an asynchronous error"));
    EXPECT_TRUE(net->weight.detach().equal(at::ones({1, 2}))) << "it is not applied";
  });
}

TEST(Step, ExceptionOfTheNetworkBecomesAStatusWithTheStep) {
  const auto net = std::make_shared<Scale>();
  Model model = AsModel(net);
  model.forward = [](const at::Tensor& x) { return x.matmul(at::ones({7, 7})); };
  ClassifierTask task(model, kMeanOfFirst, 2);
  Numbers source;
  TrainState state(*net, {});
  DataParallel dp(state.trained(), nullptr);
  TrainStep runner(task, source, dp, state, {});
  EXPECT_THAT(std::string(runner.Run(3, 0, 1, 0.1).status().message()), HasSubstr("step 3"));
}

}  // namespace
}  // namespace mtrun::trainers
