#include "datasets/files/progress.h"

#include <atomic>
#include <chrono>

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(ProgressTest, Text) {
  EXPECT_EQ(ProgressText(12345, 60000, 0.5), "12,345 of 60,000 images   20 %  24,690 images/s  2 s left");
  EXPECT_EQ(ProgressText(0, 0, 0), "0 of 0 images    0 %  0 images/s");
}

TEST(ProgressTest, RateAndTimeLeftCountOnlyThisAttempt) {
  EXPECT_EQ(ProgressText(51000, 60000, 0.5, 50000),
            "51,000 of 60,000 images   85 %  2,000 images/s  4 s left");
  EXPECT_EQ(ProgressText(50000, 60000, 0.5, 50000), "50,000 of 60,000 images   83 %  0 images/s");
}

TEST(ProgressTest, Commas) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(WithCommas(-123), "-123");
}

TEST(ProgressTest, StopsAtOnce) {
  const std::atomic<int64_t> done = 0;
  const auto began = std::chrono::steady_clock::now();
  { const Progress progress(10, done); }
  // Not as late as the next log line, which comes every ten seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

}  // namespace
}  // namespace mtrun::datasets
