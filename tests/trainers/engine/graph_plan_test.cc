#include "trainers/engine/graph_plan.h"

#include <string>

#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

const WorkShape kFull{{16, 16}, 64}, kShort{{16, 3}, 35}, kIdle{{}, 35};

/// A letter a step: eager, Record, replay.
std::string Actions(GraphPlan& plan, std::initializer_list<WorkShape> shapes) {
  std::string actions;
  for (const WorkShape& shape : shapes) {
    const GraphPlan::Action action = plan.Next(shape);
    actions += action == GraphPlan::Action::kEager ? 'e' : action == GraphPlan::Action::kRecord ? 'R' : 'r';
  }
  return actions;
}

TEST(GraphPlan, RecordsBehindTheWarmUpAndThenReplays) {
  GraphPlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kFull, kFull}), "eeeRrr");
}

TEST(GraphPlan, AnEpochsShortLastStepIsDoneInTheOrdinaryWay) {
  GraphPlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kShort, kFull, kFull, kFull, kFull, kShort, kFull, kFull}),
            "eeeeeeeRerr");
}

TEST(GraphPlan, AShapeThatStaysReplacesTheRecording) {
  GraphPlan plan;
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kShort, kShort, kShort, kShort, kShort}), "eeeReeeRr");
  EXPECT_EQ(Actions(plan, {kFull, kFull, kFull, kFull, kFull}), "eeeRr") << "the first recording is gone";
}

TEST(GraphPlan, TheSameMicroBatchesOfAnotherStepSizeAreAnotherShape) {
  GraphPlan plan;
  Actions(plan, {kFull, kFull, kFull, kFull});
  EXPECT_EQ(Actions(plan, {WorkShape{{16, 16}, 63}, kFull}), "er") << "losses are weighted otherwise";
}

TEST(GraphPlan, AMemberWithoutShardsRecordsNothing) {
  GraphPlan plan;
  EXPECT_EQ(Actions(plan, {kIdle, kIdle, kIdle, kIdle, kIdle, kIdle}), "eeeeee");
}

}  // namespace
}  // namespace mtrun::engine
