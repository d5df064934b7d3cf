#include "trainers/program/run_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

RunOutline ExampleOutline() {
  RunOutline o{.program = "cnnA",
               .data = "data/d",
               .images = {.height = 28, .width = 28},
               .train_images = 100,
               .test_images = 20,
               .classes = 10,
               .parameters = 9986,
               .trained = 9986,
               .plan = {.global_batch = 8, .micro_batch = 4},
               .length = {.epochs = 2, .steps = 26, .steps_per_epoch = 13},
               .schedule = {.kind = LrSchedule::Kind::kCosine, .base = 0.1, .steps = 26, .warmup_steps = 4},
               .folder = "runs/r"};
  o.resolved.image_size = 32;
  o.resolved.batch_image_size = 32;
  return o;
}

TEST(RunOutline, SaysWhatIsTrained) {
  EXPECT_EQ(
      OutlineText(ExampleOutline()),
      "cnnA, what this command trains:\n"
      "  data           data/d: 100 training images of 28x28 in 10 classes; 20 images are evaluated after "
      "each "
      "epoch\n"
      "  network        9986 parameters; images of 32x32, cpu, 1 thread, fp32; starts from random weights\n"
      "  steps          13 an epoch, each of 8 images in micro-batches of 4; 26 in all, 2 epochs\n"
      "  learning rate  cosine: 0.01 at step 0, 0.1 at step 4, 0.06409 at step 13, 0.0005089 at step 25\n"
      "  run folder     runs/r: a new run begins\n");
}

TEST(RunOutline, SaysWhatDiffersFromThePlainRun) {
  RunOutline o = ExampleOutline();
  o.images.varies = true;
  o.final_images = 30;
  o.trained = 650;
  o.weights = "w.pth";
  o.length.steps = 20;
  o.continued = 20;
  const std::string text = OutlineText(o);
  EXPECT_THAT(text, HasSubstr("images of up to 28x28"));
  EXPECT_THAT(text, HasSubstr("after each epoch, 30 tested at the end"));
  EXPECT_THAT(text, HasSubstr("9986 parameters, 650 of them trained"));
  EXPECT_THAT(text, HasSubstr("starts from w.pth"));
  EXPECT_THAT(text, HasSubstr("20 in all, --max_steps, within epoch 2 of 2"));
  EXPECT_THAT(text, HasSubstr("continues after step 20, where it has ended: --epochs extends it"));
  o.continued = 19;
  EXPECT_THAT(OutlineText(o), HasSubstr("continues after step 19\n"));
}

TEST(RunOutline, NamesCautions) {
  RunOutline o = ExampleOutline();
  EXPECT_THAT(OutlineText(o), testing::Not(HasSubstr("caution")));
  o.plan.global_batch = 200;
  o.length = {.epochs = 2, .steps = 2, .steps_per_epoch = 1};
  EXPECT_THAT(OutlineText(o), HasSubstr("\n  caution        a step takes 200 images, and there are 100"));
}

TEST(RunOutline, CourseOfTheLearningRateHasItsTurns) {
  EXPECT_EQ(LearningRateText({.base = 0.1, .steps = 10}, 10), "constant: 0.1");
  const LrSchedule cycle{.kind = LrSchedule::Kind::kOneCycle, .base = 0.1, .steps = 99};
  EXPECT_THAT(LearningRateText(cycle, 99), HasSubstr("one_cycle: 0.004 at step 0, 0.1 at step 29, "));
  EXPECT_EQ(LearningRateText({.kind = LrSchedule::Kind::kLinear, .base = 1, .steps = 1}, 1),
            "linear: 1 at step 0");
}

}  // namespace
}  // namespace mtrun::trainers
