#include "trainers/device/capture_plan.h"

#include <string>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

const WorkShape kFull{{16, 16}, 64}, kShort{{16, 3}, 35}, kIdle{{}, 35};

/// Returns one letter per step: e (eager), R (capture), r (replay).
std::string Actions(CapturePlan& plan, std::initializer_list<WorkShape> shapes) {
  std::string actions;
  for (const WorkShape& shape : shapes) {
    const CapturePlan::Action action = plan.Next(shape);
    actions += action == CapturePlan::Action::kEager     ? 'e'
               : action == CapturePlan::Action::kCapture ? 'R'
                                                         : 'r';
  }
  return actions;
}

TEST(CapturePlan, CapturesAfterTheWarmUpAndThenReplays) {
  CapturePlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kFull, kFull}), "eeeRrr");
}

TEST(CapturePlan, ShortLastStepOfAnEpochRunsEagerly) {
  CapturePlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kShort, kFull, kFull, kFull, kFull, kShort, kFull, kFull}),
            "eeeeeeeRerr");
}

TEST(CapturePlan, LastingShapeReplacesTheCapture) {
  CapturePlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kShort, kShort, kShort, kShort, kShort}), "eeeReeeRr");
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kFull}), "eeeRr") << "the first capture is gone";
}

TEST(CapturePlan, SameMicroBatchesOfAnotherStepSizeAreAnotherShape) {
  CapturePlan plan;
  Actions(plan, {kFull, kFull, kFull, kFull});
  EXPECT_EQ(Actions(plan, {WorkShape{{16, 16}, 63}, kFull}), "er") << "losses are weighted otherwise";
}

TEST(CapturePlan, MemberWithoutMicroBatchesCapturesNothing) {
  CapturePlan plan;
  EXPECT_EQ(Actions(plan, {kIdle, kIdle, kIdle, kIdle, kIdle, kIdle}), "eeeeee");
}

}  // namespace
}  // namespace mtrun::trainers
