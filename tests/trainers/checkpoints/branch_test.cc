// Tests of branches: checkpoints that nodes of one run saved while a network partition separated them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/checkpoints/support/fake_disk.h"
#include "tests/trainers/checkpoints/support/snapshots.h"
#include "trainers/checkpoints/checkpoint.h"

namespace mtrun::checkpoints {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRunFolder[] = "/run";

/// Two nodes with disks of their own diverged; after they met again, this node's branch was abandoned.
TEST(BranchTest, RetentionRemovesAncestorsAndSetsOtherBranchesAside) {
  FakeDisk disk;
  for (const auto& [generation, step] : std::vector<std::pair<uint64_t, int64_t>>{{1, 10}, {2, 20}, {3, 30}})
    ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(generation, step), "1.1").ok());
  ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(5, 40), "5.1").ok());
  ASSERT_TRUE(
      RemoveOldSteps(disk, kRunFolder, 40, StateAt(5, 40, {{1, 0}, {3, 15}, {5, 33}}), 1, std::nullopt).ok());
  EXPECT_THAT(*disk.List(kRunFolder), ElementsAre("branch_2_step_20", "step_40"));
}

TEST(BranchTest, ABranchGetsAFreeName) {
  FakeDisk disk;
  for (const uint64_t generation : {2, 3, 2, 3})
    ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(generation, 50), "1.1").ok());
  EXPECT_THAT(*disk.List(kRunFolder), ElementsAre("branch_2_step_50", "step_50"));
  ASSERT_TRUE(disk.Remove("/run/step_50").ok());
  for (const uint64_t generation : {2, 3})
    ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(generation, 50), "1.1").ok());
  EXPECT_THAT(*disk.List(kRunFolder), ElementsAre("branch_2_step_50", "branch_2_step_50.2", "step_50"));
}

TEST(BranchTest, SearchAboveAPositionReadsOnlyHigherCheckpoints) {
  FakeDisk disk;
  for (const auto& [generation, step] : std::vector<std::pair<uint64_t, int64_t>>{{2, 66}, {2, 50}, {2, 350}})
    ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(generation, step), "1.1").ok());
  EXPECT_EQ(FindNewest(disk, kRunFolder, Position{1, 66})->newest->step, 350);
  disk.Bytes("/run/step_350/model.safetensors")->back() ^= 1;
  const auto search = FindNewest(disk, kRunFolder, Position{1, 66});
  EXPECT_EQ(search->newest->step, 66) << "of a later generation";
  EXPECT_THAT(search->passed_over, ElementsAre(HasSubstr("step_350")));
  EXPECT_FALSE(FindNewest(disk, kRunFolder, Position{2, 400})->newest);
}

/// Generation 8 made 76 steps, but one of its folders returned after others had continued from step 65.
TEST(BranchTest, StepsAfterALaterGenerationsStartBecomeABranch) {
  FakeDisk disk;
  for (const int64_t step : {64, 74, 75, 76})
    ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(8, step), "8.1").ok());
  ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(12, 73), "12.1").ok());
  EXPECT_EQ(FindNewest(disk, kRunFolder)->newest->step, 76) << "the steps count, then the generation";
  ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(12, 74), "12.1").ok());
  ASSERT_TRUE(WriteCheckpoint(disk, kRunFolder, SnapshotOfGeneration(8, 74), "8.1").ok()) << "a late writer";
  EXPECT_EQ(ReadCheckpoint(disk, absl::StrCat(kRunFolder, "/step_74"), 74)->model.back(), 12);
  ASSERT_TRUE(RemoveOldSteps(disk, kRunFolder, 74, StateAt(12, 74, {{8, 0}, {12, 65}}), 2, 64).ok());
  EXPECT_THAT(*disk.List(kRunFolder),
              ElementsAre("branch_8_step_74", "step_64", "step_73", "step_74", "step_75", "step_76"))
      << "nothing that was saved is lost";
  EXPECT_EQ(ReadCheckpoint(disk, absl::StrCat(kRunFolder, "/branch_8_step_74"), 74)->model.back(), 8);
  EXPECT_THAT(*CompletePositions(disk, kRunFolder),
              ElementsAre(SavedPosition{7, {8, 64, false}}, SavedPosition{7, {12, 73, false}},
                          SavedPosition{7, {12, 74, false}}, SavedPosition{7, {8, 75, false}},
                          SavedPosition{7, {8, 76, false}}));
}

}  // namespace
}  // namespace mtrun::checkpoints
