#include "trainers/checkpoints/lineage.h"

#include <gtest/gtest.h>

namespace mtrun::checkpoints {
namespace {

TEST(LineageTest, EntryCoversTheStepsOfOneGeneration) {
  Lineage lineage;
  Extend(lineage, 1, 0);
  Extend(lineage, 1, 1);
  Extend(lineage, 4, 2);
  EXPECT_EQ(lineage, (Lineage{{1, 0}, {4, 2}}));
}

TEST(LineageTest, StateDescendsFromPositionsItPassedThrough) {
  const Lineage lineage = {{1, 0}, {4, 2}, {5, 6}};
  for (const Position& passed :
       {Position{1, 1}, Position{1, 2}, Position{4, 3}, Position{4, 6}, Position{5, 7}})
    EXPECT_TRUE(Descends(lineage, passed)) << ToText(passed);
  for (const Position& other :
       {Position{2, 2}, Position{1, 3}, Position{2, 4}, Position{4, 7}, Position{6, 7}})
    EXPECT_FALSE(Descends(lineage, other)) << ToText(other);
  EXPECT_TRUE(Descends(lineage, {0, 0})) << "the start of the run";
}

TEST(LineageTest, PositionsBeforeTheFirstEntryAreUnknown) {
  EXPECT_TRUE(Descends({}, {3, 10})) << "of an earlier release";
  EXPECT_TRUE(Descends({{7, 10}}, {3, 10}));
  EXPECT_FALSE(Descends({{7, 10}}, {7, 10})) << "the run was not there in this generation";
  EXPECT_FALSE(Descends({{7, 0}}, {3, 10}));
  Lineage lineage;
  for (size_t k = 1; k <= kMaxLineageEntries + 2; ++k) Extend(lineage, k, static_cast<int64_t>(k));
  EXPECT_EQ(lineage.size(), kMaxLineageEntries);
  EXPECT_EQ(lineage.front(), (LineageEntry{3, 3}));
  EXPECT_TRUE(Descends(lineage, {1, 2})) << "its entry was dropped";
  EXPECT_TRUE(Descends(lineage, {3, 4}));
  EXPECT_FALSE(Descends(lineage, {4, 4}));
}

}  // namespace
}  // namespace mtrun::checkpoints
