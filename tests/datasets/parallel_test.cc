#include "datasets/files/parallel.h"

#include <atomic>
#include <vector>

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

}  // namespace
}  // namespace mtrun::datasets
