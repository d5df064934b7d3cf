#include "trainers/collectives/work_queue.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/asleep.h"

namespace mtrun::collectives {
namespace {

/// A one-time event that threads can wait for.
class Event {
 public:
  void Set() {
    const std::lock_guard lock(mu_);
    set_ = true;
    changed_.notify_all();  // under the lock: a waiter may destroy this as soon as it holds it
  }
  void Wait() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool set_ = false;
};

TEST(WorkQueueTest, ReportsHowLongTheCurrentOperationRuns) {
  WorkQueue queue;
  EXPECT_EQ(queue.running_for(), Duration::zero());
  Event begun, go_on;
  const auto work = queue.Submit([&] {
    begun.Set();
    go_on.Wait();
    return absl::OkStatus();
  });
  begun.Wait();
  const Duration first = queue.running_for();
  EXPECT_GT(first, Duration::zero());
  while (queue.running_for() == first) std::this_thread::yield();
  EXPECT_GT(queue.running_for(), first);
  go_on.Set();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(queue.running_for(), Duration::zero());
}

TEST(WorkQueueTest, RunsInOrderWithoutAWaiter) {
  WorkQueue queue;
  std::vector<int> order;
  Event last;
  for (int i = 0; i < 100; ++i) {
    queue.Submit([&order, &last, i] {
      order.push_back(i);
      if (i == 99) last.Set();
      return absl::OkStatus();
    });
  }
  last.Wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkQueueTest, OperationsNeverOverlapDespiteSeveralWaiters) {
  WorkQueue queue;
  int running = 0, done = 0;  // unguarded, so that a race detector sees overlapping operations
  std::vector<std::shared_ptr<Work>> works;
  for (int i = 0; i < 300; ++i) {
    works.push_back(queue.Submit([&] {
      EXPECT_EQ(++running, 1);
      --running;
      ++done;
      return absl::OkStatus();
    }));
  }
  std::vector<std::thread> waiters;
  for (size_t w = 0; w < 3; ++w) {
    waiters.emplace_back([&, w] {
      for (size_t i = w; i < works.size(); i += 3) EXPECT_TRUE(works[i]->Wait().ok());
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(done, 300);
  EXPECT_EQ(queue.pending(), 0u);
}

TEST(WorkQueueTest, ErrorsAndCallbacksArriveOnce) {
  WorkQueue queue;
  int calls = 0;
  const auto work = queue.Submit([] { return absl::DataLossError("gone"); },
                                 [&](const absl::Status& status) {
                                   ++calls;
                                   EXPECT_EQ(status.message(), "gone");
                                 });
  EXPECT_TRUE(absl::IsDataLoss(work->Wait()));
  EXPECT_TRUE(absl::IsDataLoss(work->Wait()));
  EXPECT_TRUE(work->done());
  EXPECT_TRUE(absl::IsDataLoss(work->status()));
  EXPECT_EQ(calls, 1);
}

TEST(WorkQueueTest, ClosingCancelsPendingOperations) {
  std::optional<WorkQueue> queue(std::in_place);
  Event begun, release;
  std::atomic<pid_t> closing = 0;
  const auto first = queue->Submit([&] {
    begun.Set();
    release.Wait();
    return absl::OkStatus();
  });
  bool ran = false;
  const auto second = queue->Submit([&] {
    ran = true;
    return absl::OkStatus();
  });
  begun.Wait();
  std::thread closer([&] {
    closing = support::ThreadId();
    queue.reset();
  });
  while (closing == 0) std::this_thread::yield();
  // The queue waits for the first operation, which is not affected, and the second one waits in line.
  ASSERT_TRUE(support::AwaitAsleep(closing, [] { return false; }));
  release.Set();
  closer.join();
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(ran);
  EXPECT_EQ(second->Wait(), absl::AbortedError("the process group was closed"));
}

TEST(WorkQueueTest, ClosingEndsWhileAWaiterRunsTheLastOperation) {
  for (int round = 0; round < 200; ++round) {
    std::optional<WorkQueue> queue(std::in_place);
    Event begun;
    const auto work = queue->Submit([&] {
      begun.Set();
      return absl::OkStatus();
    });
    std::thread waiter([&] { EXPECT_TRUE(work->Wait().ok()); });
    begun.Wait();
    queue.reset();
    waiter.join();
  }
}

TEST(WorkQueueTest, CompletedWorkIsDone) {
  EXPECT_TRUE(CompletedWork(absl::OkStatus())->done());
  EXPECT_EQ(CompletedWork(absl::AbortedError("no"))->Wait().message(), "no");
}

}  // namespace
}  // namespace mtrun::collectives
