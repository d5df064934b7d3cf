#include "trainers/engine/prefetched_shards.h"

#include <utility>

namespace mtrun::engine {

PrefetchedShards::PrefetchedShards(ShardSource& source, at::Device device)
    : source_(source), device_(device), thread_([this] { Run(); }) {}

PrefetchedShards::~PrefetchedShards() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch PrefetchedShards::Make(int64_t step, int64_t shard) {
  std::optional<Promised> promised = std::exchange(promised_, std::nullopt);
  if (promised && promised->step == step && promised->shard == shard) return promised->batch.get();
  if (promised) promised->batch.wait();
  return source_.Make(step, shard);
}

void PrefetchedShards::Ahead(int64_t step, int64_t shard) {
  if (promised_) promised_->batch.wait();
  std::packaged_task<Batch()> task([this, step, shard] { return source_.Make(step, shard); });
  promised_ = Promised{step, shard, task.get_future()};
  {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_all();
}

void PrefetchedShards::Run() {
  // Which device is the current one belongs to the thread.
  const c10::OptionalDeviceGuard device(device_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return task_ || closing_; });
    if (closing_) return;
    std::packaged_task<Batch()> task = *std::exchange(task_, std::nullopt);
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace mtrun::engine
