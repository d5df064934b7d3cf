#include "trainers/engine/prefetched_shards.h"

#include <mutex>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

using ::testing::ElementsAre;

/// Batches that name their step and shard; notes on which thread each was made.
class NotedShards : public ShardSource {
 public:
  struct Made {
    int64_t step, shard;
    std::thread::id by;
  };

  int64_t shards() const override { return 2; }
  int64_t SamplesInStep(int64_t) const override { return 2; }
  int64_t SamplesInShard(int64_t, int64_t) const override { return 1; }
  Batch Make(int64_t step, int64_t shard) override {
    if (step < 0) throw std::runtime_error("no such step");
    const std::lock_guard lock(mutex_);
    made_.push_back({step, shard, std::this_thread::get_id()});
    return {at::full({1}, step), at::full({1}, shard)};
  }
  /// One letter a batch: 'a'head or 'm'ain.
  std::string Makers() {
    const std::lock_guard lock(mutex_);
    std::string makers;
    for (const Made& made : made_) makers += made.by == std::this_thread::get_id() ? 'm' : 'a';
    return makers;
  }

 private:
  std::mutex mutex_;
  std::vector<Made> made_;
};

std::vector<int64_t> Name(const Batch& batch) {
  return {batch.images.item<int64_t>(), batch.labels.item<int64_t>()};
}

TEST(PrefetchedShards, WhatWasAnnouncedIsMadeOnAnotherThread) {
  NotedShards source;
  PrefetchedShards prefetched(source, at::Device(at::kCPU));
  EXPECT_THAT(Name(prefetched.Make(0, 0)), ElementsAre(0, 0));
  for (int64_t step = 1; step < 50; ++step) {
    prefetched.Ahead(step, 1);
    EXPECT_THAT(Name(prefetched.Make(step, 1)), ElementsAre(step, 1));
  }
  EXPECT_EQ(source.Makers(), "m" + std::string(49, 'a'));
}

TEST(PrefetchedShards, AnotherBatchThanAnnouncedIsMadeAllTheSame) {
  NotedShards source;
  PrefetchedShards prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(7, 0);
  EXPECT_THAT(Name(prefetched.Make(7, 1)), ElementsAre(7, 1));
  EXPECT_THAT(Name(prefetched.Make(7, 0)), ElementsAre(7, 0)) << "dropped, so made again";
  EXPECT_EQ(source.Makers(), "amm");
}

TEST(PrefetchedShards, AnErrorComesWhereTheBatchIsAskedFor) {
  NotedShards source;
  PrefetchedShards prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(-1, 0);
  EXPECT_THROW(prefetched.Make(-1, 0), std::runtime_error);
  EXPECT_THAT(Name(prefetched.Make(1, 0)), ElementsAre(1, 0));
}

TEST(PrefetchedShards, MayGoWithABatchUnderWay) {
  NotedShards source;
  PrefetchedShards prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(1, 0);
}

}  // namespace
}  // namespace mtrun::engine
