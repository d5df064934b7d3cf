#include "trainers/parallel/partition.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(Partition, RangesCoverEveryMicroBatchOnceAndDifferByAtMostOne) {
  for (int64_t micro_batches = 0; micro_batches <= 17; ++micro_batches) {
    for (int world = 1; world <= 20; ++world) {
      int64_t next = 0, smallest = micro_batches, largest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const MicroBatchRange range = MicroBatchesOf(micro_batches, rank, world);
        EXPECT_EQ(range.begin, next) << micro_batches << " micro-batches, rank " << rank << " of " << world;
        next = range.end;
        smallest = std::min(smallest, range.size());
        largest = std::max(largest, range.size());
      }
      EXPECT_EQ(next, micro_batches);
      EXPECT_LE(largest - smallest, 1);
    }
  }
}

TEST(Partition, SurplusWorkersAreIdle) {
  EXPECT_EQ(MicroBatchesOf(2, 0, 4), (MicroBatchRange{0, 1}));
  EXPECT_EQ(MicroBatchesOf(2, 1, 4), (MicroBatchRange{1, 2}));
  EXPECT_TRUE(MicroBatchesOf(2, 2, 4).empty());
  EXPECT_TRUE(MicroBatchesOf(2, 3, 4).empty());
}

TEST(Partition, WeightsOfAStepSumToOne) {
  EXPECT_EQ(MicroBatchWeight(8, 16), 0.5);
  EXPECT_EQ(MicroBatchWeight(6, 10) + MicroBatchWeight(4, 10), 1.0);
  EXPECT_EQ(MicroBatchWeight(0, 10), 0.0);
}

TEST(PartitionDeathTest, InvalidArgumentsAbort) {
  EXPECT_DEATH(MicroBatchesOf(4, 2, 2), "rank 2 of 2");
  EXPECT_DEATH(MicroBatchWeight(11, 10), "11 of 10");
}

}  // namespace
}  // namespace mtrun::trainers
