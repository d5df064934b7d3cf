#include "page/task_queue.h"

#include <utility>

namespace mtrun::page {

TaskQueue::TaskQueue() {
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

TaskQueue::~TaskQueue() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool TaskQueue::Add(std::function<void()> task) {
  const MutexLock lock(mu_);
  if (tasks_.size() >= kMost) return false;
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
  return true;
}

void TaskQueue::Run() {
  mu_.Lock();
  while (!stopping_) {
    if (tasks_.empty()) {
      changed_.Wait(mu_);
      continue;
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    mu_.Unlock();
    task();
    mu_.Lock();
  }
  mu_.Unlock();
}

}  // namespace mtrun::page
