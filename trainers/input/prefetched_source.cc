#include "trainers/input/prefetched_source.h"

#include <utility>

#include <c10/core/StreamGuard.h>

namespace mtrun::trainers {

PrefetchedSource::PrefetchedSource(MicroBatchSource& source, at::Device device)
    : source_(source),
      stream_(c10::impl::getDeviceGuardImpl(device.type())->getStream(device)),
      thread_([this] { Run(); }) {}

PrefetchedSource::~PrefetchedSource() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

Batch PrefetchedSource::Make(int64_t step, int64_t micro_batch) {
  const BatchInputs inputs = Inputs(step, micro_batch);
  return WithGathered(Compose(inputs.tensors), inputs.gathered);
}

BatchInputs PrefetchedSource::Inputs(int64_t step, int64_t micro_batch) {
  std::optional<Promised> promised = std::exchange(promised_, std::nullopt);
  if (promised && promised->step == step && promised->micro_batch == micro_batch)
    return promised->inputs.get();
  if (promised) promised->inputs.wait();
  return source_.Inputs(step, micro_batch);
}

void PrefetchedSource::Ahead(int64_t step, int64_t micro_batch) {
  if (promised_) promised_->inputs.wait();
  std::packaged_task<BatchInputs()> task(
      [this, step, micro_batch] { return source_.Inputs(step, micro_batch); });
  promised_ = Promised{step, micro_batch, task.get_future()};
  {
    const MutexLock lock(mutex_);
    task_ = std::move(task);
  }
  changed_.NotifyAll();
}

void PrefetchedSource::Run() {
  // Which device and which stream are the current ones belongs to the thread.
  const c10::StreamGuard stream(stream_);
  const MutexLock lock(mutex_);
  while (true) {
    while (!task_ && !closing_) changed_.Wait(mutex_);
    if (closing_) return;
    std::packaged_task<BatchInputs()> task = *std::exchange(task_, std::nullopt);
    mutex_.Unlock();
    task();
    mutex_.Lock();
  }
}

}  // namespace mtrun::trainers
