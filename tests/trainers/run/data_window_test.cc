#include "trainers/run/arrival/data_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kShard = int64_t{1} << 30;

/// Returns a set of `train` shards of 1 GiB, and a test split of half a GiB.
datasets::Index SetOf(int train) {
  datasets::Index index{.height = 1, .width = 1, .classes = {"a"}};
  for (int i = 0; i < train; ++i) index.splits["train"].shards.push_back({.images = 1, .bytes = kShard});
  index.splits["test"].shards.push_back({.images = 1, .bytes = kShard / 2});
  return index;
}

/// Returns the needs of 4 micro-batches a step on 2 workers of a node: 2 streams each.
DataNeeds Needs(int64_t cache_gib, double ahead_gib = 0) {
  return {.cache_bytes = cache_gib * kShard,
          .fetch_ahead_gib = ahead_gib,
          .arrives = true,
          .plan = {.global_batch = 8, .micro_batch = 2},
          .window = 3,
          .workers = 2};
}

std::string RefusalOf(int train, const DataNeeds& needs) {
  const auto bounds = BoundsOf("https://h/x", SetOf(train), needs);
  EXPECT_TRUE(absl::IsInvalidArgument(bounds.status())) << bounds.status();
  return std::string(bounds.status().message());
}

TEST(DataBoundsTest, CacheThatHoldsTheSetLimitsOnlyFetchAhead) {
  for (const int64_t cache : {0, 101}) {
    EXPECT_EQ(*BoundsOf("u", SetOf(100), Needs(cache)), DataBounds());
    EXPECT_EQ(*BoundsOf("u", SetOf(100), Needs(cache, 4)), (DataBounds{.ahead = 2 * kShard}));
  }
}

TEST(DataBoundsTest, WorkersOfANodeShareASmallCache) {
  const int64_t each = (50 * kShard - kShard / 2) / 2;
  EXPECT_EQ(*BoundsOf("u", SetOf(100), Needs(50)), (DataBounds{.ahead = each, .hold = each}));
  EXPECT_EQ(*BoundsOf("u", SetOf(100), Needs(50, 4)), (DataBounds{.ahead = 2 * kShard, .hold = each}));
}

TEST(DataBoundsTest, TooSmallCacheIsRefusedWithAlternatives) {
  // 4 streams of 3 windows of 3 shards, plus the test split.
  EXPECT_TRUE(BoundsOf("u", SetOf(100), Needs(37)).ok());
  EXPECT_THAT(RefusalOf(100, Needs(36)),
              AllOf(HasSubstr("100 GiB"), HasSubstr("may hold only 36"),
                    HasSubstr("needs 36.9 GiB at a time"), HasSubstr("--shuffle_window")));
  DataNeeds permuted = Needs(60);
  permuted.arrives = false;
  EXPECT_THAT(RefusalOf(100, permuted),
              AllOf(HasSubstr("--cache_gib"), HasSubstr("--shuffle streams"), HasSubstr("36.9 GiB")));
  // A set with fewer shards than that is needed as a whole.
  EXPECT_THAT(RefusalOf(20, Needs(20)), HasSubstr("needs 20.7 GiB"));
}

TEST(DataBoundsTest, EvaluatedTrainingImagesAreNeededAllTheTime) {
  datasets::Index alone = SetOf(100);
  alone.splits.erase("test");
  DataNeeds needs = Needs(39);
  needs.eval_images = 3;
  const auto bounds = BoundsOf("u", alone, needs);
  ASSERT_TRUE(bounds.ok()) << bounds.status();
  EXPECT_EQ(bounds->hold, 18 * kShard);
  EXPECT_EQ(bounds->evaluated_shards, 3u);
  needs.cache_bytes = 38 * kShard;  // 4 streams of 3 windows of 3 shards, plus the evaluated shards
  EXPECT_TRUE(absl::IsInvalidArgument(BoundsOf("u", alone, needs).status()));
  needs.cache_bytes = 99 * kShard;
  needs.eval_images = 0;  // all
  EXPECT_TRUE(absl::IsInvalidArgument(BoundsOf("u", alone, needs).status()));
  EXPECT_EQ(BoundsOf("u", SetOf(100), Needs(50))->evaluated_shards, 0u) << "it has others";
}

const std::vector<NeededFile> kOrder = {{"a", 10},           {"b", 10}, {"c", 10},
                                        {"test", 50, false}, {"d", 10}, {"e", 10}};

TEST(DataWindowTest, FetchesEverythingInOrderWithoutBounds) {
  const DataWindow window = WindowOf(kOrder, {"a"}, {});
  EXPECT_THAT(window.fetch, ElementsAre("a", "b", "c", "test", "d", "e"));
  EXPECT_EQ(window.keep.size(), 6u);
}

TEST(DataWindowTest, FetchesUpToTheBoundAndKeepsTheNextShards) {
  const DataWindow window = WindowOf(kOrder, {"a"}, {.ahead = 20, .hold = 40});
  EXPECT_THAT(window.fetch, ElementsAre("a", "b"));
  EXPECT_THAT(window.keep, ElementsAre("a", "b", "c", "d", "test"));
}

TEST(DataWindowTest, ShardsOfTheNextStepsIgnoreTheBounds) {
  const DataWindow window = WindowOf(kOrder, {"c", "e"}, {.ahead = 1, .hold = 1});
  EXPECT_THAT(window.fetch, ElementsAre("c", "e"));
  EXPECT_THAT(window.keep, ElementsAre("c", "e", "test"));
  // It counts towards the bounds.
  EXPECT_THAT(WindowOf(kOrder, {"e"}, {.ahead = 20, .hold = 20}).keep, ElementsAre("a", "e", "test"));
}

TEST(DataWindowTest, EmptyOrderNeedsNothing) {
  const DataWindow window = WindowOf({}, {}, {.ahead = 1, .hold = 1});
  EXPECT_THAT(window.fetch, IsEmpty());
  EXPECT_THAT(window.keep, IsEmpty());
}

}  // namespace
}  // namespace mtrun::trainers
