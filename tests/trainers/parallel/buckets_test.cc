#include "trainers/parallel/buckets.h"

#include <set>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(Buckets, NoParametersGiveNoBuckets) { EXPECT_TRUE(PlanBuckets({}, 100).empty()); }

TEST(Buckets, SmallModelsHaveOneBucketInReverseOrder) {
  const auto buckets = PlanBuckets({108, 4, 32}, 1000);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].slots, (std::vector<BucketSlot>{{2, 0}, {1, 32}, {0, 48}}));
  EXPECT_EQ(buckets[0].numel, 48 + 112);
}

TEST(Buckets, ClosesFullBuckets) {
  const auto buckets = PlanBuckets({64, 64, 64, 64, 1000}, 128);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].slots, (std::vector<BucketSlot>{{4, 0}}));
  EXPECT_EQ(buckets[1].slots, (std::vector<BucketSlot>{{3, 0}, {2, 64}}));
  EXPECT_EQ(buckets[2].slots, (std::vector<BucketSlot>{{1, 0}, {0, 64}}));
}

TEST(Buckets, EveryParameterIsPlacedOnceAlignedWithoutOverlap) {
  std::vector<int64_t> numels;
  for (int64_t i = 0; i < 200; ++i) numels.push_back(1 + (i * 7919) % 3001);
  std::set<int> seen;
  for (const Bucket& bucket : PlanBuckets(numels, 10000)) {
    int64_t end = 0;
    for (const BucketSlot& slot : bucket.slots) {
      EXPECT_TRUE(seen.insert(slot.parameter).second);
      EXPECT_EQ(slot.offset % kBucketAlignment, 0);
      EXPECT_GE(slot.offset, end);
      end = slot.offset + numels[slot.parameter];
    }
    EXPECT_LE(end, bucket.numel);
  }
  EXPECT_EQ(seen.size(), numels.size());
}

}  // namespace
}  // namespace mtrun::trainers
