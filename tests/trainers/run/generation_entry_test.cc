#include "trainers/run/loop/generation_entry.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using Begun = RunReplica::Begun;

TEST(ContinuationTextTest, NamesTheCheckpointOrTheWorkers) {
  const Begun resumed{.resumed = "run/step_7"}, held{.held = true, .resumed = ""},
      received{.received = true, .resumed = ""};
  for (const bool launcher_tells : {false, true})
    EXPECT_EQ(ContinuationText(resumed, {}, 7, launcher_tells), "resumed from run/step_7 at step 7");
  EXPECT_EQ(ContinuationText(held, {}, 8, false), "continuing with 1 worker at step 8");
  EXPECT_EQ(ContinuationText(received, {.world_size = 3}, 8, false), "continuing with 3 workers at step 8");
  EXPECT_EQ(ContinuationText(received, {.world_size = 3}, 8, true), "");
  EXPECT_EQ(ContinuationText({.received = true, .held = true, .resumed = ""}, {.world_size = 3}, 8, false),
            "continuing with 3 workers at step 8");
  for (const bool launcher_tells : {false, true}) {
    EXPECT_EQ(ContinuationText(received, {.rank = 1, .world_size = 2}, 809, launcher_tells),
              "joined: 2 workers, this node has rank 1, step 809 continues");
    EXPECT_EQ(
        ContinuationText(received, {.rank = 2, .world_size = 6, .local_world_size = 2}, 8, launcher_tells),
        "joined: 6 workers, this node has ranks 2-3, step 8 continues");
  }
}

TEST(ContinuationTextTest, IsEmptyIfTheRunBeginsOrTheLauncherTellsIt) {
  for (const bool received : {false, true})
    EXPECT_EQ(ContinuationText({.fresh = true, .received = received, .resumed = ""}, {}, 0, false), "");
  EXPECT_EQ(ContinuationText({.held = true, .resumed = ""}, {}, 8, true), "");
}

TEST(ShowsProgressTest, FirstWorkerOfEachNodeShowsItOnATerminal) {
  const Assignment first{.rank = 2, .world_size = 4, .local_rank = 0},
      second{.rank = 3, .world_size = 4, .local_rank = 1, .first_on_node = false};
  for (const bool terminal : {false, true}) {
    EXPECT_TRUE(ShowsProgress({}, terminal));
    EXPECT_EQ(ShowsProgress(first, terminal), terminal);
    EXPECT_FALSE(ShowsProgress(second, terminal));
  }
}

}  // namespace
}  // namespace mtrun::trainers
