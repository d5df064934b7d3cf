// The real loop with threads as workers: no launcher, no processes.
#include "trainers/run/train_loop.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/thread_job.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ThreadJob;
using testing::ThreadMembership;

constexpr int kClasses = 4, kSide = 8;

/// One layer on all pixels.
struct Linear : torch::nn::Module {
  explicit Linear(double scale)
      : weight(register_parameter("weight", at::full({3 * kSide * kSide, kClasses}, scale, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& images) { return images.flatten(1).matmul(weight); }
  at::Tensor weight;
};

/// How one member fared.
struct Result {
  absl::StatusOr<Outcome> outcome = absl::UnknownError("did not run");
  at::Tensor weight;
  std::optional<int64_t> done;
};

/// A data set of 24 images: 6 steps an epoch of 4 samples in micro-batches of 1.
class TrainLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = testing::WritePackedSet(
        folder_.path(), "set", {.height = kSide, .width = kSide, .classes = kClasses, .train = 24, .test = 8},
        testing::LearnablePixel);
    data_ = path;
    options_.data = path;
    options_.epochs = 2;
    options_.plan = {.global_batch = 4, .micro_batch = 1};
    options_.optimizer.momentum = 0.9;
    options_.schedule.base = 0.01;
    options_.seed = 3;
    options_.augmentation = {};
  }

  /// `member` trains as a part of `job` in run folder `run` and is gone then.
  Result Train(ThreadJob& job, int member, const std::string& run, ThreadMembership::Hook hook = nullptr) {
    Result result;
    TrainOptions options = options_;
    options.model_folder = folder_.path() + "/" + run;
    const auto train = datasets::PackedSplit::Open(data_, "train");
    const auto test = datasets::PackedSplit::Open(data_, "test");
    ThreadMembership membership(job, member, std::move(hook));
    const absl::Status entered = membership.Enter();
    if (!train.ok() || !test.ok() || !entered.ok()) {
      ADD_FAILURE() << train.status() << test.status() << entered;
      job.Gone(member);
      return result;
    }
    // Members begin with different weights: rank 0's count.
    const auto net = std::make_shared<Linear>(0.01 * (member + 1));
    const std::unique_ptr<Task> task = Classify(AsModel(net), kClasses);
    ProgressLine progress(/*quiet=*/true);
    const std::string name = "toy";
    TrainLoop loop({.program = name,
                    .options = options,
                    .train = *train,
                    .test = *test,
                    .task = *task,
                    .batch = {.image_size = kSide, .dtype = at::kDouble},
                    .identity = {.run = {{"program", name}, {"data", train->digest()}},
                                 .generation = {},
                                 .not_of_run = {}},
                    .settings = "toy:\n",
                    .greeting = "",
                    .finish =
                        [this](const TrainState&, const RunReport&) {
                          ++finished_;
                          return absl::OkStatus();
                        }},
                   membership, progress, MonotonicNow());
    result.outcome = loop.Run();
    result.weight = net->weight.detach().clone();
    result.done = membership.done();
    job.Gone(member);
    return result;
  }

  /// `world` members, with what the test does to each.
  std::vector<Result> TrainAll(int world, const std::string& run,
                               const std::map<int, ThreadMembership::Hook>& hooks = {}) {
    std::set<int> members;
    for (int i = 0; i < world; ++i) members.insert(i);
    ThreadJob job(members);
    std::vector<Result> results(static_cast<size_t>(world));
    std::vector<std::thread> threads;
    for (int i = 0; i < world; ++i) {
      threads.emplace_back([&, i] {
        const auto hook = hooks.find(i);
        results[static_cast<size_t>(i)] = Train(job, i, run, hook == hooks.end() ? nullptr : hook->second);
      });
    }
    for (std::thread& thread : threads) thread.join();
    generations_ = job.generation();
    return results;
  }

  std::vector<double> Losses(const std::string& run) const {
    std::vector<double> losses;
    for (const testing::StepLine& step : testing::Steps(folder_.path() + "/" + run))
      losses.push_back(step.loss);
    return losses;
  }
  static void ExpectComplete(const Result& result) {
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_TRUE(result.outcome->complete);
    EXPECT_EQ(result.done, 12);
  }
  /// The order of sums over workers differs, nothing else does.
  void ExpectSameRun(const std::string& run, const at::Tensor& weight, const at::Tensor& reference) const {
    EXPECT_TRUE(at::allclose(weight, reference, 1e-9, 1e-12));
    const std::vector<double> losses = Losses(run), alone = Losses("alone");
    ASSERT_EQ(losses.size(), alone.size());
    for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(losses[step], alone[step], 1e-9) << step;
  }
  at::Tensor TrainAlone() {
    const std::vector<Result> alone = TrainAll(1, "alone");
    ExpectComplete(alone[0]);
    return alone[0].weight;
  }

  const support::TemporaryFolder folder_;
  std::string data_;
  TrainOptions options_;
  std::atomic<int> finished_{0};
  uint64_t generations_ = 0;
};

TEST_F(TrainLoopTest, TheResultIsTheSameAtAnyWorldSize) {
  const at::Tensor reference = TrainAlone();
  EXPECT_LT(Losses("alone").back(), Losses("alone").front()) << "it learns";
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    finished_ = 0;
    const std::string run = absl::StrCat("world", world);
    for (const Result& result : TrainAll(world, run)) {
      ExpectComplete(result);
      ExpectSameRun(run, result.weight, reference);
    }
    EXPECT_EQ(finished_, 1) << "one member writes the results";
    EXPECT_EQ(generations_, 1u);
  }
}

TEST_F(TrainLoopTest, AMemberLeavesAfterItsStepAndNothingIsRedone) {
  const at::Tensor reference = TrainAlone();
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 3) self.Drain();
  };
  const std::vector<Result> results = TrainAll(3, "leaves", {{0, leave}});
  ASSERT_TRUE(results[0].outcome.ok()) << results[0].outcome.status();
  EXPECT_FALSE(results[0].outcome->complete);
  EXPECT_EQ(results[0].outcome->signal, 0);
  EXPECT_EQ(results[0].outcome->stopped,
            "told to go: left after step 3, the other workers continue without this one");
  for (const int stays : {1, 2}) {
    ExpectComplete(results[static_cast<size_t>(stays)]);
    ExpectSameRun("leaves", results[static_cast<size_t>(stays)].weight, reference);
  }
  EXPECT_EQ(generations_, 2u);
}

TEST_F(TrainLoopTest, ACollectiveBreaksAndTheStepIsDoneAgain) {
  const at::Tensor reference = TrainAlone();
  auto broken = std::make_shared<std::atomic<bool>>(false);
  const auto once = [broken](ThreadMembership& self, int64_t steps) {
    if (steps == 5 && !broken->exchange(true)) self.BreakGroup();
  };
  for (const Result& result : TrainAll(2, "breaks", {{1, once}})) {
    ExpectComplete(result);
    ExpectSameRun("breaks", result.weight, reference);
  }
  EXPECT_TRUE(*broken);
  EXPECT_EQ(generations_, 2u);
}

TEST_F(TrainLoopTest, ANewcomerReceivesTheRun) {
  const at::Tensor reference = TrainAlone();
  ThreadJob job({0});
  Result late;
  std::thread newcomer;
  const auto invite = [&](ThreadMembership&, int64_t steps) {
    if (steps != 2 || newcomer.joinable()) return;
    job.Join(7);
    newcomer = std::thread([&] { late = Train(job, 7, "joined"); });
  };
  Result first = Train(job, 0, "joined", invite);
  newcomer.join();
  for (const Result* result : {&first, &late}) {
    ExpectComplete(*result);
    ExpectSameRun("joined", result->weight, reference);
  }
  EXPECT_EQ(job.generation(), 2u);
}

TEST_F(TrainLoopTest, WhenAllLeaveTheRunStopsAndIsContinued) {
  const at::Tensor reference = TrainAlone();
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 4) self.Drain();
  };
  for (const Result& result : TrainAll(2, "stopped", {{0, leave}, {1, leave}})) {
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_FALSE(result.outcome->complete);
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped, HasSubstr("stopped at step 5 of 12"));
  }
  EXPECT_TRUE(fs::exists(folder_.path() + "/stopped/step_5/DONE"));
  EXPECT_EQ(finished_, 1) << "the one that trained alone";
  for (const Result& result : TrainAll(3, "stopped")) {
    ExpectComplete(result);
    ExpectSameRun("stopped", result.weight, reference);
  }
}

}  // namespace
}  // namespace mtrun::trainers
