#include "trainers/input/prefetched_source.h"

#include <mutex>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;

/// Batches that name their step and micro-batch; notes on which thread each was made.
class NotedSource : public MicroBatchSource {
 public:
  struct Made {
    int64_t step, micro_batch;
    std::thread::id by;
  };

  int64_t micro_batches() const override { return 2; }
  int64_t SamplesInStep(int64_t) const override { return 2; }
  int64_t SamplesInMicroBatch(int64_t, int64_t) const override { return 1; }
  bool Has(int64_t step, int64_t) const override { return step < 100; }
  Batch Make(int64_t step, int64_t micro_batch) override {
    if (step < 0) throw std::runtime_error("no such step");
    const std::lock_guard lock(mutex_);
    made_.push_back({step, micro_batch, std::this_thread::get_id()});
    return {at::full({1}, step), at::full({1}, micro_batch), {static_cast<uint64_t>(step), 1}};
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

TEST(PrefetchedSource, WhatWasAnnouncedIsMadeOnAnotherThread) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  EXPECT_THAT(Name(prefetched.Make(0, 0)), ElementsAre(0, 0));
  for (int64_t step = 1; step < 50; ++step) {
    prefetched.Ahead(step, 1);
    const Batch batch = prefetched.Make(step, 1);
    EXPECT_THAT(Name(batch), ElementsAre(step, 1));
    EXPECT_EQ(batch.gathered, (datasets::SampleSum{static_cast<uint64_t>(step), 1}));
  }
  EXPECT_EQ(source.Makers(), "m" + std::string(49, 'a'));
}

TEST(PrefetchedSource, AnotherBatchThanAnnouncedIsMadeAllTheSame) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(7, 0);
  EXPECT_THAT(Name(prefetched.Make(7, 1)), ElementsAre(7, 1));
  EXPECT_THAT(Name(prefetched.Make(7, 0)), ElementsAre(7, 0)) << "dropped, so made again";
  EXPECT_EQ(source.Makers(), "amm");
}

TEST(PrefetchedSource, WhatIsNotHereYetIsNotMadeAhead) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  EXPECT_FALSE(prefetched.Has(100, 0));
  prefetched.Ahead(99, 0);
  prefetched.Ahead(100, 0);
  EXPECT_THAT(Name(prefetched.Make(100, 0)), ElementsAre(100, 0)) << "it has come meanwhile";
  EXPECT_EQ(source.Makers(), "am");
}

TEST(PrefetchedSource, AnErrorComesWhereTheBatchIsAskedFor) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(-1, 0);
  EXPECT_THROW(prefetched.Make(-1, 0), std::runtime_error);
  EXPECT_THAT(Name(prefetched.Make(1, 0)), ElementsAre(1, 0));
}

TEST(PrefetchedSource, MayGoWithABatchUnderWay) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(1, 0);
}

}  // namespace
}  // namespace mtrun::trainers
