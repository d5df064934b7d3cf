#include "page/task_queue.h"

#include <future>

#include "gtest/gtest.h"

namespace mtrun::page {
namespace {

TEST(TaskQueueTest, TasksRunAndTooManyAreRefused) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::promise<void> last;
  {
    TaskQueue queue;
    size_t added = 0;
    while (queue.Add([gone] { gone.wait(); })) ++added;
    EXPECT_GE(added, TaskQueue::kMost);
    EXPECT_LE(added, TaskQueue::kMost + TaskQueue::kThreads);
    go.set_value();
    while (!queue.Add([&last] { last.set_value(); })) {
    }
    last.get_future().wait();
  }
}

}  // namespace
}  // namespace mtrun::page
