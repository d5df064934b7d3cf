#include "trainers/collectives/work_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

class Completed : public Work {
 public:
  explicit Completed(absl::Status status) : status_(std::move(status)) {}
  absl::Status Wait() override { return status_; }
  bool done() const override { return true; }
  absl::Status status() const override { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace

struct WorkQueue::Item : public Work {
  Item(std::shared_ptr<State> owner, Operation what, OnDone after)
      : state(std::move(owner)), operation(std::move(what)), on_done(std::move(after)) {}
  absl::Status Wait() override;
  bool done() const override;
  absl::Status status() const override;

  const std::shared_ptr<State> state;
  Operation operation;  // the runner's
  OnDone on_done;
  bool is_done = false;  // guarded by state->mu
  absl::Status result;
};

struct WorkQueue::State {
  std::mutex mu;
  std::condition_variable submitted;  // for the queue's thread
  std::condition_variable finished;   // for those who wait
  std::deque<std::shared_ptr<Item>> items;
  bool running = false;
  TimePoint began;  // of the running one
  bool stopping = false;

  // Runs the first item. `lock` is held before and after, not in between.
  void RunFirst(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<Item> item = items.front();
    running = true;
    began = MonotonicNow();
    const bool cancelled = stopping;
    lock.unlock();
    absl::Status status = cancelled ? absl::AbortedError("the process group was closed") : item->operation();
    if (item->on_done) item->on_done(status);
    item->operation = nullptr;
    item->on_done = nullptr;
    lock.lock();
    items.pop_front();
    running = false;
    item->is_done = true;
    item->result = std::move(status);
    finished.notify_all();
    if (!items.empty() || stopping) submitted.notify_one();
  }

  void RunThread() {
    std::unique_lock lock(mu);
    while (true) {
      submitted.wait(lock, [this] { return (stopping || !items.empty()) && !running; });
      if (items.empty()) return;
      RunFirst(lock);
    }
  }
};

absl::Status WorkQueue::Item::Wait() {
  std::unique_lock lock(state->mu);
  while (!is_done) {
    if (state->running) {
      state->finished.wait(lock);
    } else {
      state->RunFirst(lock);
    }
  }
  return result;
}

bool WorkQueue::Item::done() const {
  const std::lock_guard lock(state->mu);
  return is_done;
}

absl::Status WorkQueue::Item::status() const {
  const std::lock_guard lock(state->mu);
  return result;
}

WorkQueue::WorkQueue()
    : state_(std::make_shared<State>()), thread_([state = state_] { state->RunThread(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(state_->mu);
    state_->stopping = true;
  }
  state_->submitted.notify_all();
  thread_.join();
}

std::shared_ptr<Work> WorkQueue::Submit(Operation operation, OnDone on_done, Start start) {
  auto item = std::make_shared<Item>(state_, std::move(operation), std::move(on_done));
  {
    const std::lock_guard lock(state_->mu);
    MT_CHECK(!state_->stopping) << "an operation on a group that is being closed";
    state_->items.push_back(item);
  }
  if (start == Start::kNow) state_->submitted.notify_one();
  return item;
}

size_t WorkQueue::pending() const {
  const std::lock_guard lock(state_->mu);
  return state_->items.size();
}

Duration WorkQueue::running_for() const {
  const std::lock_guard lock(state_->mu);
  return state_->running ? MonotonicNow() - state_->began : Duration::zero();
}

std::shared_ptr<Work> CompletedWork(absl::Status status) {
  return std::make_shared<Completed>(std::move(status));
}

}  // namespace mtrun::collectives
