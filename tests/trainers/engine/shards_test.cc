#include "trainers/engine/shards.h"

#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

TEST(Shards, RangesCoverEveryShardOnceWithSizesThatDifferByAtMostOne) {
  for (int64_t shards = 0; shards <= 17; ++shards) {
    for (int world = 1; world <= 20; ++world) {
      int64_t next = 0, smallest = shards, largest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const ShardRange range = ShardsOf(shards, rank, world);
        EXPECT_EQ(range.begin, next) << shards << " shards, rank " << rank << " of " << world;
        next = range.end;
        smallest = std::min(smallest, range.size());
        largest = std::max(largest, range.size());
      }
      EXPECT_EQ(next, shards);
      EXPECT_LE(largest - smallest, 1);
    }
  }
}

TEST(Shards, WorkersBeyondTheShardsAreIdle) {
  EXPECT_EQ(ShardsOf(2, 0, 4), (ShardRange{0, 1}));
  EXPECT_EQ(ShardsOf(2, 1, 4), (ShardRange{1, 2}));
  EXPECT_TRUE(ShardsOf(2, 2, 4).empty());
  EXPECT_TRUE(ShardsOf(2, 3, 4).empty());
}

TEST(Shards, WeightsOfAStepSumToOne) {
  EXPECT_EQ(ShardWeight(8, 16), 0.5);
  EXPECT_EQ(ShardWeight(6, 10) + ShardWeight(4, 10), 1.0);
  EXPECT_EQ(ShardWeight(0, 10), 0.0);
}

TEST(ShardsDeathTest, BrokenArgumentsStop) {
  EXPECT_DEATH(ShardsOf(4, 2, 2), "rank 2 of 2");
  EXPECT_DEATH(ShardWeight(11, 10), "11 of 10");
}

}  // namespace
}  // namespace mtrun::engine
