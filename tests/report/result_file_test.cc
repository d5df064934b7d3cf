#include "report/result_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/read_run.h"
#include "tests/support/program.h"

namespace mtrun::report {
namespace {

using ::testing::HasSubstr;

TEST(ResultFile, KeepsItsOriginalName) {
  EXPECT_EQ(ResultFileName({.epochs = 10, .micro_batch = 64, .world = 4, .nodes = 2}), "64_10_2_2.txt");
  EXPECT_EQ(ResultFileName({.epochs = 10, .micro_batch = 16, .world = 1, .nodes = 0}), "16_10_1_1.txt");
}

TEST(ResultFile, ContainsTheConsoleOutput) {
  RunRecord run = ReadRun(support::TestFile("testdata/formats/0.1.0/run")).value();
  const std::string text = ResultFileText(run, *run.result);
  for (const char* part :
       {"Epoch 1: train accuracy 12.50 %, test accuracy 25.00 %", "New best accuracy: 50.00 %",
        "1: accuracy 50.00 %, precision 33.33 %, recall 100.00 %", "Accuracy plot: accuracy_plot.png",
        "Best accuracy: 50.00 %", "Confusion matrix", "      1      0      0"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(ResultFile, AccuracyOfAClassIsOneAgainstTheRest) {
  RunRecord run;
  Result result{
      .classes = {{.name = "a", .images = 6}, {.name = "b", .images = 6}, {.name = "c", .images = 8}},
      .confusion = {{5, 1, 0}, {2, 3, 1}, {0, 0, 8}}};
  const std::string text = ResultFileText(run, result);
  for (const char* line : {"a: accuracy 85.00 %", "b: accuracy 80.00 %", "c: accuracy 95.00 %"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(ResultFile, ClassWithoutTestImagesHasNoFigures) {
  const Result result{.classes = {{.name = "cat", .recall = 0.5, .images = 2}, {.name = "dog"}},
                      .confusion = {{1, 1}, {0, 0}}};
  EXPECT_THAT(ResultFileText({}, result), HasSubstr("\ndog: no images\n"));
  EXPECT_THAT(ResultFileText({}, {.classes = {{.name = "dog"}}}), HasSubstr("dog: accuracy"));
}

TEST(ResultFile, HasALossEvery512Steps) {
  RunRecord run;
  for (int64_t step = 0; step < 1200; ++step) run.steps.push_back({.step = step, .loss = 0.5});
  run.epochs = {{.epoch = 1, .steps = 600, .train_loss = 1, .test_loss = 2, .seconds = 3},
                {.epoch = 2, .steps = 1200, .train_loss = 1, .test_loss = 2, .seconds = 3}};
  const std::string text = ResultFileText(run, {});
  EXPECT_THAT(text, HasSubstr("Epoch 1, step 512, loss 0.5000\nEpoch 1: train loss 1.0000"));
  EXPECT_THAT(text, HasSubstr("Epoch 2, step 512, loss 0.5000\n"));
  EXPECT_THAT(text, HasSubstr("3.00 s, 6.00 s in all"));
}

}  // namespace
}  // namespace mtrun::report
