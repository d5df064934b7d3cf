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
#include "datasets/sampler.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/thread_job.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/input/batch.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
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
                    .step_source = mutants_.count(member) != 0 ? mutants_.at(member) : nullptr,
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

  /// Exit status and text of tools/verify_ledger; the toy's settings do not say how long the run is.
  std::pair<int, std::string> Verify(const std::string& run) const {
    support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File(run),
                             "--data", data_, "--partial"});
    const int status = verify.Wait().value_or(-1);
    return {status, verify.Text()};
  }

  const support::TemporaryFolder folder_;
  std::map<int, std::function<std::unique_ptr<MicroBatchSource>(MicroBatchSource&)>> mutants_;  // by member
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

// ---- what the ledger proves

/// Gives a run's steps other micro-batches than it has.
class Mutant : public MicroBatchSource {
 public:
  explicit Mutant(MicroBatchSource& source) : source_(source) {}
  int64_t micro_batches() const override { return source_.micro_batches(); }
  int64_t SamplesInStep(int64_t step) const override { return source_.SamplesInStep(step); }
  int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const override {
    return source_.SamplesInMicroBatch(step, micro_batch);
  }

 protected:
  MicroBatchSource& source_;
};

/// Of two workers, the second computes what is the first one's.
class TheFirstOnesMicroBatches final : public Mutant {
 public:
  using Mutant::Mutant;
  Batch Make(int64_t step, int64_t micro_batch) override {
    return source_.Make(step, micro_batch - micro_batches() / 2);
  }
};

/// Loses the last image of a micro-batch before it is gathered.
class OneImageLess final : public Mutant {
 public:
  OneImageLess(MicroBatchSource& source, const std::string& data, const TrainOptions& options)
      : Mutant(source),
        data_(*datasets::PackedSplit::Open(data, "train")),
        sampler_(options.seed, data_.size(), options.plan, options.shuffle),
        images_(data_, {.image_size = kSide, .dtype = at::kDouble}) {}
  Batch Make(int64_t step, int64_t micro_batch) override {
    const int64_t each = sampler_.steps_per_epoch();
    std::vector<int64_t> ids = sampler_.MicroBatch(step / each, step % each, micro_batch);
    if (step == 7) ids.pop_back();
    return images_.Make(ids, {});
  }

 private:
  const datasets::PackedSplit data_;
  const datasets::Sampler sampler_;
  const BatchMaker images_;
};

TEST_F(TrainLoopTest, TheLedgerOfAnHonestRunIsExact) {
  for (const int world : {1, 2, 3, 5}) {
    SCOPED_TRACE(world);
    const std::string run = absl::StrCat("world", world);
    for (const Result& result : TrainAll(world, run)) ExpectComplete(result);
    const auto [status, text] = Verify(run);
    EXPECT_EQ(status, 0) << text;
    EXPECT_THAT(text, HasSubstr("\nevery sample exactly once"));
    EXPECT_THAT(text, Not(HasSubstr("checkpoints with the ledger's weights 0"))) << "the last one at least";
  }
}

TEST_F(TrainLoopTest, AWorkerThatComputesAnothersMicroBatchesIsSeenInTheLedger) {
  mutants_[1] = [](MicroBatchSource& source) { return std::make_unique<TheFirstOnesMicroBatches>(source); };
  for (const Result& result : TrainAll(2, "run")) ExpectComplete(result);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(
      text, HasSubstr("epoch 1: in 6 steps the workers gathered other samples than the order says, the first "
                      "is 0: 4 samples, 4 expected"));
}

TEST_F(TrainLoopTest, AnImageThatAWorkerDropsIsSeenInTheLedger) {
  options_.plan = {.global_batch = 4, .micro_batch = 2};
  mutants_[1] = [this](MicroBatchSource& source) {
    return std::make_unique<OneImageLess>(source, data_, options_);
  };
  for (const Result& result : TrainAll(2, "run")) ExpectComplete(result);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(
      text, HasSubstr("epoch 2: in 1 steps the workers gathered other samples than the order says, the first "
                      "is 7: 3 samples, 4 expected"));
}

/// Generations after the newest checkpoint have left lines and nothing else: those of the run that continues
/// from it stand above them, for the lines of a lower generation would not count.
TEST_F(TrainLoopTest, ARunThatContinuesIsAGenerationAboveAllInItsLedger) {
  options_.epochs = 1;
  for (const Result& result : TrainAll(1, "run")) ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
  const std::string path = folder_.File("run") + "/ledger.jsonl";
  const std::string head = support::ReadText(path).substr(0, support::ReadText(path).find('\n'));
  {
    const uint64_t run = std::stoull(nlohmann::json::parse(head).at("run").get<std::string>(), nullptr, 16);
    auto ledger = checkpoints::Ledger::Open(path, {.run = run, .data = ""});
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ASSERT_TRUE(ledger->Append({.step = 6, .epoch = 1, .generation = 8, .ids = ""}).ok());
  }
  options_.epochs = 2;
  for (const Result& result : TrainAll(2, "run")) ExpectComplete(result);
  EXPECT_THAT(support::ReadText(path), HasSubstr("{\"rewind\":6,\"generation\":9,"));
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 0) << text;
}

}  // namespace
}  // namespace mtrun::trainers
