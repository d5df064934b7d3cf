#include "datasets/files/parallel.h"

#include <set>

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(ParallelChunksTest, VisitsEverythingOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const int64_t n : {0, 1, 9, 10, 11, 100}) {
      std::vector<std::atomic<int>> visits(n);
      EXPECT_TRUE(ParallelChunks(n, 10, threads, [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) ++visits[i];
                    return absl::OkStatus();
                  }).ok());
      for (const auto& count : visits) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelChunksTest, ErrorEndsItEarly) {
  std::atomic<int> calls = 0;
  const absl::Status status = ParallelChunks(1000000, 1, 3, [&](int64_t begin, int64_t) {
    ++calls;
    return begin == 5 ? absl::DataLossError("five") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_LT(calls, 1000000);
}

TEST(BoundedQueueTest, ForwardsEverythingAndBlocksTheProducer) {
  BoundedQueue<int> queue(2);
  std::mutex mutex;
  std::multiset<int> seen;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 3; ++i) {
      workers.emplace_back([&] {
        while (const auto item = queue.Pop()) {
          const std::lock_guard lock(mutex);
          seen.insert(*item);
        }
      });
    }
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue.Push(i));
    queue.Close();
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 1000u);
}

TEST(BoundedQueueTest, CloseRefusesTheBlockedProducerAndReturnsTheRest) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.Push(1));
  std::atomic<bool> refused = false;
  std::jthread producer([&] { refused = !queue.Push(2); });
  queue.Close();
  producer.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

}  // namespace
}  // namespace mtrun::datasets
