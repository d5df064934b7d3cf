#include "trainers/collectives/work_queue.h"

#include <deque>
#include <utility>

#include "base/mutex.h"
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
  Operation operation;  // used only by the thread that runs it
  OnDone on_done;
  bool is_done = false;  // this and the following: guarded by state->mu, which the analysis cannot name here
  absl::Status result;
};

struct WorkQueue::State {
  Mutex mu;
  Condition submitted;  // for the queue's thread
  Condition finished;   // for waiting threads
  std::deque<std::shared_ptr<Item>> items ABSL_GUARDED_BY(mu);
  bool running ABSL_GUARDED_BY(mu) = false;
  TimePoint began ABSL_GUARDED_BY(mu);  // start of the running operation
  bool stopping ABSL_GUARDED_BY(mu) = false;

  // Runs the first item. `mu` is held on entry and on return, but not while the operation runs.
  void RunFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const std::shared_ptr<Item> item = items.front();
    running = true;
    began = MonotonicNow();
    const bool cancelled = stopping;
    mu.Unlock();
    absl::Status status = cancelled ? absl::AbortedError("the process group was closed") : item->operation();
    if (item->on_done) item->on_done(status);
    item->operation = nullptr;
    item->on_done = nullptr;
    mu.Lock();
    items.pop_front();
    running = false;
    item->is_done = true;
    item->result = std::move(status);
    finished.NotifyAll();
    if (!items.empty() || stopping) submitted.NotifyAll();
  }

  void RunThread() {
    const MutexLock lock(mu);
    while (true) {
      while (running || (!stopping && items.empty())) submitted.Wait(mu);
      if (items.empty()) return;
      RunFirst();
    }
  }
};

absl::Status WorkQueue::Item::Wait() {
  const MutexLock lock(state->mu);
  while (!is_done) {
    if (state->running) {
      state->finished.Wait(state->mu);
    } else {
      state->RunFirst();
    }
  }
  return result;
}

bool WorkQueue::Item::done() const {
  const MutexLock lock(state->mu);
  return is_done;
}

absl::Status WorkQueue::Item::status() const {
  const MutexLock lock(state->mu);
  return result;
}

WorkQueue::WorkQueue()
    : state_(std::make_shared<State>()), thread_([state = state_] { state->RunThread(); }) {}

WorkQueue::~WorkQueue() {
  {
    const MutexLock lock(state_->mu);
    state_->stopping = true;
  }
  state_->submitted.NotifyAll();
  thread_.join();
}

std::shared_ptr<Work> WorkQueue::Submit(Operation operation, OnDone on_done, Start start) {
  auto item = std::make_shared<Item>(state_, std::move(operation), std::move(on_done));
  {
    const MutexLock lock(state_->mu);
    MT_CHECK(!state_->stopping) << "an operation on a group that is being closed";
    state_->items.push_back(item);
  }
  if (start == Start::kNow) state_->submitted.NotifyAll();
  return item;
}

size_t WorkQueue::pending() const {
  const MutexLock lock(state_->mu);
  return state_->items.size();
}

Duration WorkQueue::running_for() const {
  const MutexLock lock(state_->mu);
  return state_->running ? MonotonicNow() - state_->began : Duration::zero();
}

std::shared_ptr<Work> CompletedWork(absl::Status status) {
  return std::make_shared<Completed>(std::move(status));
}

}  // namespace mtrun::collectives
