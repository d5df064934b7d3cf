// Runs the real loop with threads as workers: no launcher, no processes.
#include "trainers/run/loop/train_loop.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "datasets/order/sampler.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/input/batch.h"
#include "trainers/input/prefetched_source.h"
#include "trainers/run/loop/state_sync.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::kSide;
using testing::MemberResult;
using ::testing::Not;
using testing::ThreadJob;
using testing::ThreadMembership;
using testing::TrainLoopTest;

TEST_F(TrainLoopTest, ResultIsTheSameAtAnyWorldSize) {
  const at::Tensor reference = TrainAlone();
  EXPECT_LT(Losses("alone").back(), Losses("alone").front()) << "it learns";
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    finished_ = 0;
    const std::string run = absl::StrCat("world", world);
    for (const MemberResult& result : TrainAll(world, run)) {
      ExpectComplete(result);
      ExpectSameRun(run, result.weight, reference);
    }
    EXPECT_EQ(finished_, 1) << "one member writes the results";
    EXPECT_EQ(generations_, 1u);
  }
}

TEST_F(TrainLoopTest, MemberLeavesAfterItsStepAndNothingIsRedone) {
  const at::Tensor reference = TrainAlone();
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 3) self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(3, "leaves", {{0, leave}});
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

TEST_F(TrainLoopTest, BrokenCollectiveRepeatsTheStep) {
  const at::Tensor reference = TrainAlone();
  auto broken = std::make_shared<std::atomic<bool>>(false);
  const auto once = [broken](ThreadMembership& self, int64_t steps) {
    if (steps == 5 && !broken->exchange(true)) self.BreakGroup();
  };
  for (const MemberResult& result : TrainAll(2, "breaks", {{1, once}})) {
    ExpectComplete(result);
    ExpectSameRun("breaks", result.weight, reference);
  }
  EXPECT_TRUE(*broken);
  EXPECT_EQ(generations_, 2u);
}

/// If the next membership divides the step in another way, it must not use batches made ahead for the broken
/// one. The ledger shows which images were used.
TEST_F(TrainLoopTest, BatchesMadeAheadDoNotOutliveTheirMembership) {
  const at::Tensor reference = TrainAlone();
  for (int member = 0; member < 3; ++member) {
    mutants_[member] = [](MicroBatchSource& source) {
      return std::make_unique<PrefetchedSource>(source, at::Device(at::kCPU));
    };
  }
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 3) self.Drain();
  };
  auto broken = std::make_shared<std::atomic<bool>>(false);
  const auto once = [broken](ThreadMembership& self, int64_t steps) {
    if (steps == 6 && !broken->exchange(true)) self.BreakGroup();
  };
  const std::vector<MemberResult> results = TrainAll(3, "ahead", {{0, leave}, {1, once}});
  for (const int stays : {1, 2}) {
    ExpectComplete(results[static_cast<size_t>(stays)]);
    ExpectSameRun("ahead", results[static_cast<size_t>(stays)].weight, reference);
  }
  EXPECT_TRUE(*broken);
  EXPECT_EQ(generations_, 3u);
  const auto [status, text] = Verify("ahead");
  EXPECT_EQ(status, 0) << text;
}

/// Results must be bit-identical, and the warm-up uses prefetched batches.
TEST_F(TrainLoopTest, WarmedUpWorkerTrainsIdentically) {
  options_.optimizer.kind = OptimizerOptions::Kind::kAdamW;
  options_.ema_decay = 0.9;
  const at::Tensor reference = TrainAlone();
  warm_up_ = true;
  mutants_[0] = [](MicroBatchSource& source) {
    return std::make_unique<PrefetchedSource>(source, at::Device(at::kCPU));
  };
  const MemberResult warm = TrainAll(1, "warm")[0];
  ExpectComplete(warm);
  EXPECT_TRUE(warm.weight.equal(reference));
  EXPECT_EQ(Losses("warm"), Losses("alone"));
  const auto [status, text] = Verify("warm");
  EXPECT_EQ(status, 0) << text;
}

TEST_F(TrainLoopTest, DifferentStatesOfOneStepStopTheRunAndAreNamed) {
  ThreadJob job({0, 1});
  MemberResult second, late;
  const auto flip = [this](ThreadMembership&, int64_t steps) {
    const MutexLock lock(mu_);
    torch::NoGradGuard no_grad;
    if (steps == 1) weights_.at(1)[0][0] += 1e-9;  // like faulty memory
  };
  std::thread other([&] { second = Train(job, 1, "rivals", flip); });
  std::thread newcomer;
  const auto invite = [&](ThreadMembership&, int64_t steps) {
    if (steps != 2 || newcomer.joinable()) return;
    job.Join(7);  // all members leave the generation after the same step
    newcomer = std::thread([&] { late = Train(job, 7, "rivals"); });
  };
  MemberResult first = Train(job, 0, "rivals", invite);
  other.join();
  newcomer.join();
  for (const MemberResult* result : {&first, &second, &late}) {
    EXPECT_TRUE(IsRivalry(result->outcome.status())) << result->outcome.status();
    EXPECT_THAT(std::string(result->outcome.status().message()),
                HasSubstr("rank 0 and rank 1 are both at step"));
  }
  EXPECT_EQ(finished_, 0);
}

/// The writer of the run's files is away while the other member finishes the run alone. It returns before the
/// job has ended, with the same state, and has not learned that the results exist.
TEST_F(TrainLoopTest, ResultsKnownToOneMemberAreNotWrittenAgain) {
  ThreadJob job({0, 1});
  std::latch ended(1);
  const ThreadMembership* writer = nullptr;
  const auto leaves = [&writer](ThreadMembership& self, int64_t) { writer = &self; };
  on_results_ = [&, gone = false]() mutable -> absl::Status {
    if (std::exchange(gone, true)) return absl::OkStatus();
    writer->BreakGroup();
    job.Gone(0);
    ended.wait();
    return absl::UnavailableError("it was away");
  };
  const auto stays = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 12) return;
    self.AnswerDone([&] {
      job.Join(0);
      ended.count_down();
      return absl::UnavailableError("a member is back");
    });
  };
  MemberResult second;
  std::thread other([&] { second = Train(job, 1, "away", stays); });
  const MemberResult first = Train(job, 0, "away", leaves);
  other.join();
  ExpectComplete(first);
  ExpectComplete(second);
  EXPECT_EQ(job.generation(), 3u);
  EXPECT_EQ(finished_, 1);
}

TEST_F(TrainLoopTest, NewcomerReceivesTheRun) {
  const at::Tensor reference = TrainAlone();
  ThreadJob job({0});
  MemberResult late;
  std::thread newcomer;
  const auto invite = [&](ThreadMembership&, int64_t steps) {
    if (steps != 2 || newcomer.joinable()) return;
    job.Join(7);
    newcomer = std::thread([&] { late = Train(job, 7, "joined"); });
  };
  MemberResult first = Train(job, 0, "joined", invite);
  newcomer.join();
  for (const MemberResult* result : {&first, &late}) {
    ExpectComplete(*result);
    ExpectSameRun("joined", result->weight, reference);
  }
  EXPECT_EQ(job.generation(), 2u);
}

TEST_F(TrainLoopTest, RunStopsWhenAllLeaveAndCanBeContinued) {
  const at::Tensor reference = TrainAlone();
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 4) self.Drain();
  };
  for (const MemberResult& result : TrainAll(2, "stopped", {{0, leave}, {1, leave}})) {
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_FALSE(result.outcome->complete);
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped, HasSubstr("stopped at step 5 of 12"));
  }
  EXPECT_TRUE(fs::exists(folder_.path() + "/stopped/step_5/DONE"));
  EXPECT_EQ(finished_, 1) << "the one that trained alone";
  for (const MemberResult& result : TrainAll(3, "stopped")) {
    ExpectComplete(result);
    ExpectSameRun("stopped", result.weight, reference);
  }
}

/// A cosine's learning rate would have a kink at the resume.
TEST_F(TrainLoopTest, LongerResumedRunReportsTheEffectOnItsSchedule) {
  options_.schedule.kind = LrSchedule::Kind::kCosine;
  const auto train = [this](int64_t epochs, int64_t schedule_epochs) {
    options_.epochs = epochs;
    options_.schedule_epochs = schedule_epochs;
    ::testing::internal::CaptureStderr();
    for (const MemberResult& result : TrainAll(2, "run")) {
      EXPECT_TRUE(result.outcome.ok()) << result.outcome.status();
    }
    return ::testing::internal::GetCapturedStderr();
  };
  constexpr char kBends[] = "this run began with one that ends at step 6";
  EXPECT_THAT(train(1, 0), Not(HasSubstr(kBends))) << "it begins";
  EXPECT_THAT(train(2, 1), Not(HasSubstr(kBends))) << "it keeps its schedule";
  const std::string longer = train(3, 0);
  EXPECT_THAT(longer, HasSubstr(kBends));
  EXPECT_THAT(longer, HasSubstr("--schedule_epochs 1 keeps the original one"));
  EXPECT_EQ(longer.find(kBends), longer.rfind(kBends)) << "one worker says it:\n" << longer;
}

/// Draws a picture every 4 steps; the disk has no space for the first one.
class PicturesOnAFullDisk final : public Task {
 public:
  explicit PicturesOnAFullDisk(std::unique_ptr<Task> toy)
      : Task(toy->module().shared_from_this()), toy_(std::move(toy)) {}
  int classes() const override { return toy_->classes(); }
  Output Train(const Batch& batch, const RandomInputs& random) override { return toy_->Train(batch, random); }
  void Evaluate(const Batch& batch, int64_t first, Sums& sums) override {
    toy_->Evaluate(batch, first, sums);
  }
  int64_t picture_every() const override { return 4; }
  absl::Status DrawPicture(const std::string& path) override {
    if (std::exchange(full_, false)) return absl::ResourceExhaustedError("no space left on device");
    support::WriteText(path, "picture");
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Task> toy_;
  bool full_ = true;
};

TEST_F(TrainLoopTest, StepWhosePictureDoesNotFitIsInTheLedger) {
  tasks_ = [](std::unique_ptr<Task> toy) { return std::make_unique<PicturesOnAFullDisk>(std::move(toy)); };
  const auto end = [ended = std::make_shared<bool>(false)](ThreadMembership& self, int64_t steps) {
    if (steps == 4 && !std::exchange(*ended, true)) self.EndGeneration();
  };
  for (const MemberResult& result : TrainAll(2, "run", {{0, end}})) ExpectComplete(result);
  EXPECT_EQ(generations_, 2u);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 0) << text;
}

// ---- what the ledger proves

/// Supplies other micro-batches than those of the run's steps.
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

/// Makes the second of two workers compute the micro-batches of the first.
class TheFirstOnesMicroBatches final : public Mutant {
 public:
  using Mutant::Mutant;
  Batch Make(int64_t step, int64_t micro_batch) override {
    return source_.Make(step, micro_batch - micro_batches() / 2);
  }
};

/// Drops the last image of a micro-batch before it is gathered.
class OneImageLess final : public Mutant {
 public:
  OneImageLess(MicroBatchSource& source, const std::string& data, const TrainOptions& options)
      : Mutant(source),
        data_(*datasets::PackedSplit::Open(data, "train")),
        sampler_(options.seed, data_.size(), options.plan, options.shuffle == datasets::Shuffle::kFull),
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

TEST_F(TrainLoopTest, LedgerOfACorrectRunIsExact) {
  for (const int world : {1, 2, 3, 5}) {
    SCOPED_TRACE(world);
    const std::string run = absl::StrCat("world", world);
    for (const MemberResult& result : TrainAll(world, run)) ExpectComplete(result);
    const auto [status, text] = Verify(run);
    EXPECT_EQ(status, 0) << text;
    EXPECT_THAT(text, HasSubstr("\nevery sample exactly once"));
    EXPECT_THAT(text, Not(HasSubstr("checkpoints with the ledger's weights 0"))) << "the last one at least";
  }
}

TEST_F(TrainLoopTest, WorkerThatComputesAnothersMicroBatchesIsSeenInTheLedger) {
  mutants_[1] = [](MicroBatchSource& source) { return std::make_unique<TheFirstOnesMicroBatches>(source); };
  for (const MemberResult& result : TrainAll(2, "run")) ExpectComplete(result);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(
      text, HasSubstr("epoch 1: in 6 steps the workers gathered other samples than the order says, the first "
                      "is 0: 4 samples, 4 expected"));
}

TEST_F(TrainLoopTest, DroppedImageIsSeenInTheLedger) {
  options_.plan = {.global_batch = 4, .micro_batch = 2};
  mutants_[1] = [this](MicroBatchSource& source) {
    return std::make_unique<OneImageLess>(source, data_, options_);
  };
  for (const MemberResult& result : TrainAll(2, "run")) ExpectComplete(result);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(
      text, HasSubstr("epoch 2: in 1 steps the workers gathered other samples than the order says, the first "
                      "is 7: 3 samples, 4 expected"));
}

/// Generations after the newest checkpoint have left only lines in the ledger. The continued run needs higher
/// generations, because lines of a lower generation would not count.
TEST_F(TrainLoopTest, ContinuedRunHasAHigherGenerationThanItsLedger) {
  options_.epochs = 1;
  for (const MemberResult& result : TrainAll(1, "run"))
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
  const std::string path = folder_.File("run") + "/ledger.jsonl";
  const std::string head = support::ReadText(path).substr(0, support::ReadText(path).find('\n'));
  {
    const uint64_t run = std::stoull(nlohmann::json::parse(head).at("run").get<std::string>(), nullptr, 16);
    auto ledger = checkpoints::Ledger::Open(path, {.run = run, .data = ""});
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ASSERT_TRUE(ledger->Append({.step = 6, .epoch = 1, .generation = 8, .ids = ""}).ok());
  }
  options_.epochs = 2;
  for (const MemberResult& result : TrainAll(2, "run")) ExpectComplete(result);
  EXPECT_THAT(support::ReadText(path), HasSubstr("{\"rewind\":6,\"generation\":9,"));
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 0) << text;
}

}  // namespace
}  // namespace mtrun::trainers
