#include "base/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mtrun {
namespace {

class Counter {
 public:
  void Add() {
    const MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  /// Returns false if the count is not reached by the deadline.
  bool Await(int count, TimePoint deadline) {
    const MutexLock lock(mu_);
    while (count_ < count) {
      if (!changed_.WaitUntil(mu_, deadline)) return count_ >= count;
    }
    return true;
  }
  void AwaitForEver(int count) {
    const MutexLock lock(mu_);
    while (count_ < count) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  Condition changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST(MutexTest, ExcludesOtherThreadsAndWakesWaiters) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) counter.Add();
    });
  }
  counter.AwaitForEver(2000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(counter.Await(2000, MonotonicNow()));
}

TEST(MutexTest, WaitEndsAtItsDeadlineWithTheMutexHeld) {
  Counter counter;
  EXPECT_FALSE(counter.Await(1, MonotonicNow() + std::chrono::milliseconds(5)));
  counter.Add();
  EXPECT_TRUE(counter.Await(1, MonotonicNow() + std::chrono::seconds(30)));
}

}  // namespace
}  // namespace mtrun
