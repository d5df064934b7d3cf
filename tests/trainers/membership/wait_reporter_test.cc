#include "trainers/membership/wait_reporter.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::seconds;

TimePoint AtSecond(int second) { return TimePoint(seconds(second)); }

/// Records the messages sent, and waits for them.
class Heard {
 public:
  void Add(const channel::Waiting& waiting) {
    const std::lock_guard lock(mutex_);
    all_.push_back(waiting);
    changed_.notify_all();
  }
  std::vector<channel::Waiting> AtLeast(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<channel::Waiting> all_;
};

TEST(CountedWait, EqualsTheWaitWhileTheLeaseIsValid) {
  CountedWait counted;
  EXPECT_EQ(counted.Count(Duration::zero(), false, AtSecond(1)), Duration::zero());
  EXPECT_EQ(counted.Count(seconds(700), false, AtSecond(701)), seconds(700));
}

/// A worker that holds, or that waits for one that holds, is neither hung nor in a broken group.
TEST(CountedWait, DoesNotCountTimeWhileTheLeaseIsOver) {
  CountedWait counted;
  EXPECT_EQ(counted.Count(seconds(9), true, AtSecond(10)), seconds(1));
  EXPECT_EQ(counted.Count(Duration::zero(), true, AtSecond(11)), seconds(1))
      << "a worker that does not wait, too";
  EXPECT_EQ(counted.Count(seconds(3599), true, AtSecond(3600)), seconds(1));
  EXPECT_EQ(counted.Count(seconds(3600), false, AtSecond(3601)), seconds(1));
  EXPECT_EQ(counted.Count(seconds(3605), false, AtSecond(3606)), seconds(6));
  EXPECT_EQ(counted.Count(seconds(2), false, AtSecond(3700)), seconds(2)) << "another wait";
}

TEST(WaitReporterTest, ReportsWaitsAndNamesTheGeneration) {
  Heard heard;
  WaitReporter reporter([&](const channel::Waiting& waiting) { heard.Add(waiting); });
  reporter.Watch({3, 7}, [] { return std::chrono::seconds(5); });
  const auto said = heard.AtLeast(2);
  ASSERT_GE(said.size(), 2u);
  EXPECT_EQ(said.back(), (channel::Waiting{{3, 7}, 5}));
}

TEST(WaitReporterTest, ReportsWhileTheLeaseIsOver) {
  Heard heard;
  WaitReporter reporter([&](const channel::Waiting& waiting) { heard.Add(waiting); }, [] { return true; });
  reporter.Watch({3, 7}, nullptr);
  const auto said = heard.AtLeast(1);
  ASSERT_GE(said.size(), 1u);
  EXPECT_EQ(said.back(), (channel::Waiting{{3, 7}, 1}));
}

TEST(WaitReporterTest, IsSilentWithoutAWait) {
  Heard heard;
  std::atomic<int> asked = 0;
  {
    WaitReporter reporter([&](const channel::Waiting& waiting) { heard.Add(waiting); });
    reporter.Watch({1, 1}, [&] {
      ++asked;
      return Duration::zero();
    });
    while (asked == 0) std::this_thread::yield();
    reporter.Watch({2, 1}, nullptr);
  }
  EXPECT_TRUE(heard.AtLeast(0).empty());
}

}  // namespace
}  // namespace mtrun::trainers
