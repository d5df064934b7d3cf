#include "trainers/run/records/epoch_meter.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::seconds;

constexpr RunLength kLength{.epochs = 3, .steps = 30, .steps_per_epoch = 10};

StepResult Result(double loss, int64_t correct, int64_t samples, bool skipped = false) {
  return {.loss = loss, .correct = correct, .samples = samples, .skipped = skipped};
}

TEST(EpochMeter, EpochIsTheMeanOverItsSamples) {
  RunProgress progress;
  EpochMeter::Add(Result(2, 1, 4), 0.5, progress);
  EpochMeter::Add(Result(1, 2, 2), 0.25, progress);
  const ConfusionMatrix matrix({3, 1, 0, 4});
  const EvalRecord record = EpochMeter(kLength).EndEpoch(10, 0.75, matrix, true, progress);
  EXPECT_EQ(record, (EvalRecord{.steps = 10,
                                .epoch = 1,
                                .train_loss = 10.0 / 6,
                                .train_accuracy = 0.5,
                                .test_loss = 0.75,
                                .test_accuracy = 7.0 / 8,
                                .seconds = 0.75,
                                .classified = true}));
  EXPECT_EQ(progress.history, std::vector<EvalRecord>{record});
  EXPECT_EQ(progress.confusion, matrix.counts());
  EXPECT_EQ(progress.sums, EpochSums{}) << "the next epoch begins";
  EXPECT_EQ(progress.samples, 6) << "of the whole run";
}

/// --max_steps ended the run in the epoch, and an extended run continues it.
TEST(EpochMeter, FiguresOfAnExtendedEpochCoverAllItsSteps) {
  RunProgress progress;
  EpochMeter::Add(Result(2, 1, 4), 0.5, progress);
  const EvalRecord cut = EpochMeter(kLength).EndEpoch(4, 1, ConfusionMatrix(0), false, progress);
  EXPECT_EQ(cut.train_loss, 2);
  EpochMeter::Add(Result(1, 2, 4), 0.25, progress);
  const EvalRecord whole = EpochMeter(kLength).EndEpoch(10, 1, ConfusionMatrix(0), false, progress);
  EXPECT_EQ(whole.train_loss, 1.5);
  EXPECT_EQ(whole.train_accuracy, 3.0 / 8);
  EXPECT_EQ(whole.seconds, 0.75);
  EXPECT_EQ(progress.sums, EpochSums{});
}

TEST(EpochMeter, SkippedStepAddsOnlyTimeAndSamples) {
  RunProgress progress;
  EpochMeter::Add(Result(1e30, 4, 4, /*skipped=*/true), 0.5, progress);
  EXPECT_EQ(progress.sums, (EpochSums{.loss = 0, .correct = 0, .samples = 0, .seconds = 0.5}));
  EXPECT_EQ(progress.samples, 4);
  const EvalRecord record = EpochMeter(kLength).EndEpoch(10, 1, ConfusionMatrix(0), false, progress);
  EXPECT_EQ(record.train_loss, 0) << "no sample counted, and no division by none";
}

TEST(EpochMeter, SpeedIsThatOfTheLastSeconds) {
  EpochMeter meter(kLength);
  RunProgress progress;
  const TimePoint begin;
  meter.Restart(begin, 0);
  progress.samples = 40;
  const ProgressState first = meter.Show(10, 1.5, 0.1, progress, begin + seconds(2));
  EXPECT_EQ(first.epoch, 1);
  EXPECT_EQ(first.epochs, 3);
  EXPECT_DOUBLE_EQ(first.images_per_second, 20);
  EXPECT_DOUBLE_EQ(first.seconds_left, 20 * 4 / 20.0) << "20 steps of 4 samples are left";
  progress.samples = 44;
  const double mixed = meter.Show(11, 1.5, 0.1, progress, begin + seconds(3)).images_per_second;
  EXPECT_GT(mixed, 4) << "the second before counts too";
  EXPECT_LT(mixed, 20);
  progress.samples = 84;
  EXPECT_NEAR(meter.Show(21, 1.5, 0.1, progress, begin + seconds(43)).images_per_second, 1, 1e-6)
      << "and is forgotten";
  meter.Restart(begin + seconds(100), 84);
  progress.samples = 88;
  EXPECT_DOUBLE_EQ(meter.Show(12, 1.5, 0.1, progress, begin + seconds(101)).images_per_second, 4);
}

TEST(EpochMeter, ShowWithoutElapsedTimeKeepsTheSpeed) {
  EpochMeter meter(kLength);
  RunProgress progress;
  const TimePoint begin;
  meter.Restart(begin, 0);
  progress.samples = 4;
  const ProgressState unknown = meter.Show(1, 1.5, 0.1, progress, begin);
  EXPECT_EQ(unknown.images_per_second, 0);
  progress.samples = 44;
  EXPECT_DOUBLE_EQ(meter.Show(11, 1.5, 0.1, progress, begin + seconds(2)).images_per_second, 20);
  EXPECT_DOUBLE_EQ(meter.Show(11, 1.5, 0.1, progress, begin + seconds(2)).images_per_second, 20);
}

TEST(EpochMeter, DescribesItself) {
  EpochMeter meter(kLength);
  const TimePoint begin;
  meter.Restart(begin, 0);
  RunProgress progress;
  progress.samples = 40;
  meter.Show(10, 1.5, 0.1, progress, begin + seconds(2));
  EXPECT_EQ(meter.Describe(begin + seconds(5)),
            "3 epochs of 10 steps, since sample 40 3.000 s ago, 20.0 images/s");
}

TEST(RunLength, FollowsFromTheOptions) {
  TrainOptions options;
  options.epochs = 3;
  options.checkpoint_steps = 7;
  options.checkpoint_seconds = 2;
  EXPECT_EQ(LengthOf(options, 10), kLength);
  options.max_steps = 25;
  const RunLength shorter = LengthOf(options, 10);
  EXPECT_EQ(shorter.steps, 25);
  EXPECT_EQ(LrScheduleOf(options, shorter).steps, 25);
  const RunRules rules = RulesOf(options, shorter);
  EXPECT_EQ(rules, (RunRules{.steps = 25,
                             .steps_per_epoch = 10,
                             .save_steps = 7,
                             .save_epochs = options.checkpoint_epochs,
                             .save_interval = seconds(2)}));
  options.max_steps = 1000;
  EXPECT_EQ(LengthOf(options, 10).steps, 30);
  EXPECT_EQ(kLength.EpochOf(1), 1);
  EXPECT_EQ(kLength.EpochOf(10), 1);
  EXPECT_EQ(kLength.EpochOf(11), 2);
}

TEST(RunLength, ScheduleCanBeLongerThanTheRun) {
  TrainOptions options;
  options.epochs = 3;
  options.schedule_epochs = 20;
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 10)).steps, 200);
}

TEST(RunLength, WarmUpTakesAtMostItsShare) {
  TrainOptions options;
  options.schedule.warmup_steps = 100;
  options.warmup_share = 0.1;
  options.epochs = 50;
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 1)).warmup_steps, 5);
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 20)).warmup_steps, 100);
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 21)).warmup_steps, 100);
  options.warmup_epochs = 10;
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 4)).warmup_steps, 20);
  options.warmup_share = 1;
  EXPECT_EQ(LrScheduleOf(options, LengthOf(options, 4)).warmup_steps, 40);
}

TEST(RunLength, CautionsNameWhatKeepsARunFromLearning) {
  const LrSchedule schedule{.base = 0.001, .steps = 50, .warmup_steps = 100};
  const RunLength length{.epochs = 50, .steps = 50, .steps_per_epoch = 1};
  EXPECT_THAT(CautionsOf(length, schedule, 256, 148),
              testing::ElementsAre(
                  "a step takes 256 images, and there are 148 training images: each epoch is one step. "
                  "--global_batch 18 gives it 9",
                  "the warm-up takes 100 steps, and the run has 50: the learning rate never reaches 0.001. "
                  "--warmup_share 0.1 limits it to a tenth of the run"));
  const RunLength longer{.epochs = 50, .steps = 101, .steps_per_epoch = 2};
  EXPECT_THAT(CautionsOf(longer, schedule, 128, 148), testing::IsEmpty());
  EXPECT_THAT(CautionsOf({.epochs = 1, .steps = 1}, {}, 16, 1), testing::IsEmpty());
}

TEST(RunLength, DescribesTheEffectOfALongerRunOnTheSchedule) {
  const LrSchedule cosine{.kind = LrSchedule::Kind::kCosine, .base = 0.1, .steps = 40};
  EXPECT_EQ(DescribeOtherSchedule(cosine, 20, 20, 10),
            "the schedule ends at step 40, but this run began with one that ends at step 20: its next "
            "learning rate is 0.05 instead of 0. --schedule_epochs 2 keeps the original one");
  EXPECT_EQ(DescribeOtherSchedule(cosine, 40, 20, 10), "");
  EXPECT_EQ(DescribeOtherSchedule({.steps = 40}, 20, 20, 10), "") << "constant";
  EXPECT_EQ(DescribeOtherSchedule(cosine, 25, 0, 10).find("--schedule_epochs"), std::string::npos)
      << "--max_steps was not a multiple of the epoch";
}

}  // namespace
}  // namespace mtrun::trainers
