#include "trainers/run/loop/generation_entry.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using Begun = RunReplica::Begun;

TEST(ContinuationTextTest, NamesTheCheckpointOrTheWorkers) {
  const Begun resumed{.resumed = "run/step_7"}, held{.held = true, .resumed = ""},
      received{.received = true, .resumed = ""};
  for (const bool launcher_tells : {false, true})
    EXPECT_EQ(ContinuationText(resumed, 2, 7, launcher_tells), "resumed from run/step_7 at step 7");
  EXPECT_EQ(ContinuationText(held, 1, 8, false), "continuing with 1 worker at step 8");
  EXPECT_EQ(ContinuationText(received, 3, 8, false), "continuing with 3 workers at step 8");
}

TEST(ContinuationTextTest, IsEmptyIfTheRunBeginsOrTheLauncherTellsIt) {
  for (const bool received : {false, true})
    EXPECT_EQ(ContinuationText({.fresh = true, .received = received, .resumed = ""}, 2, 0, false), "");
  EXPECT_EQ(ContinuationText({.held = true, .resumed = ""}, 2, 8, true), "");
}

}  // namespace
}  // namespace mtrun::trainers
