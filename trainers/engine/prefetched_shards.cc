#include "trainers/engine/prefetched_shards.h"

#include <utility>

#include <c10/core/StreamGuard.h>

namespace mtrun::engine {

PrefetchedShards::PrefetchedShards(ShardSource& source, at::Device device)
    : source_(source),
      stream_(c10::impl::getDeviceGuardImpl(device.type())->getStream(device)),
      thread_([this] { Run(); }) {}

PrefetchedShards::~PrefetchedShards() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<at::Tensor> PrefetchedShards::Inputs(int64_t step, int64_t shard) {
  std::optional<Promised> promised = std::exchange(promised_, std::nullopt);
  if (promised && promised->step == step && promised->shard == shard) return promised->inputs.get();
  if (promised) promised->inputs.wait();
  return source_.Inputs(step, shard);
}

void PrefetchedShards::Ahead(int64_t step, int64_t shard) {
  if (promised_) promised_->inputs.wait();
  std::packaged_task<std::vector<at::Tensor>()> task(
      [this, step, shard] { return source_.Inputs(step, shard); });
  promised_ = Promised{step, shard, task.get_future()};
  {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_all();
}

void PrefetchedShards::Run() {
  // Which device and which stream are the current ones belongs to the thread.
  const c10::StreamGuard stream(stream_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return task_ || closing_; });
    if (closing_) return;
    std::packaged_task<std::vector<at::Tensor>()> task = *std::exchange(task_, std::nullopt);
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace mtrun::engine
