#include "trainers/input/prefetched_source.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;

/// A source of batches that name their step and micro-batch; it records which thread made each.
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
  int64_t Replaced() const override { return replaced; }
  Batch Make(int64_t step, int64_t micro_batch) override {
    if (step < 0) throw std::runtime_error("no such step");
    if (fails.exchange(false)) throw std::runtime_error("a damaged image");
    if (on_make) on_make(step);
    const std::lock_guard lock(mutex_);
    made_.push_back({step, micro_batch, std::this_thread::get_id()});
    return {at::full({1}, step), at::full({1}, micro_batch), {static_cast<uint64_t>(step), 1}};
  }
  /// Returns one letter per batch: 'a'head or 'm'ain thread.
  std::string Makers() {
    const std::lock_guard lock(mutex_);
    std::string makers;
    for (const Made& made : made_) makers += made.by == std::this_thread::get_id() ? 'm' : 'a';
    return makers;
  }
  /// Returns the steps and micro-batches in the order in which they were made.
  std::vector<std::pair<int64_t, int64_t>> InOrder() {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<int64_t, int64_t>> all;
    for (const Made& made : made_) all.emplace_back(made.step, made.micro_batch);
    return all;
  }
  std::atomic<int64_t> replaced = 0;          // number of replaced shards of its data
  std::atomic<bool> fails = false;            // fails the next batch, once
  std::function<void(int64_t step)> on_make;  // called on the making thread, before the batch is made

 private:
  std::mutex mutex_;
  std::vector<Made> made_;
};

std::vector<int64_t> Name(const Batch& batch) {
  return {batch.images.item<int64_t>(), batch.labels.item<int64_t>()};
}

TEST(PrefetchedSource, AnnouncedBatchIsMadeOnAnotherThread) {
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

TEST(PrefetchedSource, UnannouncedBatchIsMadeOnRequest) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(7, 0);
  EXPECT_THAT(Name(prefetched.Make(7, 1)), ElementsAre(7, 1));
  EXPECT_THAT(Name(prefetched.Make(7, 0)), ElementsAre(7, 0)) << "dropped, so made again";
  EXPECT_EQ(source.Makers(), "amm");
}

TEST(PrefetchedSource, BatchWithMissingImagesIsNotMadeAhead) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  EXPECT_FALSE(prefetched.Has(100, 0));
  prefetched.Ahead(99, 0);
  prefetched.Ahead(100, 0);
  EXPECT_THAT(Name(prefetched.Make(100, 0)), ElementsAre(100, 0)) << "it has come meanwhile";
  EXPECT_EQ(source.Makers(), "am");
}

TEST(PrefetchedSource, ErrorIsThrownWhenTheBatchIsRequested) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(-1, 0);
  EXPECT_THROW(prefetched.Make(-1, 0), std::runtime_error);
  EXPECT_THAT(Name(prefetched.Make(1, 0)), ElementsAre(1, 0));
}

TEST(PrefetchedSource, BatchMadeFromReplacedDataIsMadeAgain) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(1, 0);
  source.replaced = 1;
  EXPECT_THAT(Name(prefetched.Make(1, 0)), ElementsAre(1, 0));
  prefetched.Ahead(2, 0);
  EXPECT_THAT(Name(prefetched.Make(2, 0)), ElementsAre(2, 0));
  EXPECT_EQ(source.Makers(), "ama");
  EXPECT_EQ(prefetched.Replaced(), 1);
}

TEST(PrefetchedSource, FailedBatchIsRetriedWhenRequested) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  source.fails = true;
  prefetched.Ahead(1, 0);
  EXPECT_THAT(Name(prefetched.Make(1, 0)), ElementsAre(1, 0));
  EXPECT_EQ(source.Makers(), "m");
}

/// A single worker requests two micro-batches per step. The next one is made while it computes: in the order
/// of the run, each once, and none after the run's end.
TEST(PrefetchedSource, BatchesOfARunComeInOrderAndEnd) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  std::vector<std::pair<int64_t, int64_t>> asked;
  for (int64_t step = 90; step < 100; ++step) {
    for (const int64_t micro_batch : {0, 1}) {
      EXPECT_THAT(Name(prefetched.Make(step, micro_batch)), ElementsAre(step, micro_batch));
      prefetched.Ahead(micro_batch == 0 ? step : step + 1, 1 - micro_batch);
      asked.emplace_back(step, micro_batch);
    }
  }
  EXPECT_EQ(source.InOrder(), asked);
  EXPECT_EQ(source.Makers(), "m" + std::string(19, 'a'));
}

/// The failed batch belongs to an aborted step; the next membership requests others.
TEST(PrefetchedSource, ErrorOfAnUnrequestedBatchIsIgnored) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(-1, 0);
  prefetched.Ahead(5, 0);
  EXPECT_THAT(Name(prefetched.Make(5, 0)), ElementsAre(5, 0));
  prefetched.Ahead(-1, 1);
  EXPECT_THAT(Name(prefetched.Make(6, 0)), ElementsAre(6, 0));
  EXPECT_EQ(source.Makers(), "am");
}

/// The source makes one batch at a time, whichever thread requests it.
TEST(PrefetchedSource, MakesOneBatchAtATime) {
  NotedSource source;
  std::atomic<int> making{0}, most{0};
  source.on_make = [&](int64_t) {
    most = std::max(most.load(), ++making);
    std::this_thread::yield();
    --making;
  };
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  for (int64_t step = 0; step < 99; ++step) {
    prefetched.Ahead(step, 0);
    if (step % 3 != 0) prefetched.Make(step, step % 3 - 1);  // every third one was not announced
  }
  EXPECT_EQ(most, 1);
}

TEST(PrefetchedSource, CanBeDestroyedWhileABatchIsMade) {
  NotedSource source;
  PrefetchedSource prefetched(source, at::Device(at::kCPU));
  prefetched.Ahead(1, 0);
}

/// The thread is inside the source, which waits. It must leave the source before the destructor returns,
/// because the source may be destroyed right after that.
TEST(PrefetchedSource, DestructorWaitsForAThreadInsideTheSource) {
  NotedSource source;
  std::promise<void> entered, go_on;
  std::atomic<bool> left{false};
  source.on_make = [&](int64_t) {
    entered.set_value();
    go_on.get_future().wait();
    left = true;
  };
  auto prefetched = std::make_unique<PrefetchedSource>(source, at::Device(at::kCPU));
  prefetched->Ahead(1, 0);
  entered.get_future().wait();
  std::thread other([&] { go_on.set_value(); });
  prefetched.reset();
  EXPECT_TRUE(left);
  other.join();
  EXPECT_EQ(source.Makers(), "a");
}

}  // namespace
}  // namespace mtrun::trainers
