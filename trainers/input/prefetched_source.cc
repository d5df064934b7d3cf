#include "trainers/input/prefetched_source.h"

#include <exception>
#include <utility>

#include <c10/core/StreamGuard.h>

namespace mtrun::trainers {
namespace {

at::Stream StreamOfCopies(at::Device device) {
  const auto* implementation = c10::impl::getDeviceGuardImpl(device.type());
  return device.is_cpu() ? implementation->getStream(device)
                         : implementation->getStreamFromGlobalPool(device, /*isHighPriority=*/false);
}

}  // namespace

PrefetchedSource::PrefetchedSource(MicroBatchSource& source, at::Device device)
    : source_(source), device_(device), stream_(StreamOfCopies(device)), thread_([this] { Run(); }) {}

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
  if (std::optional<Promised> promised = std::exchange(promised_, std::nullopt)) {
    promised->sent.wait();  // the source serves one thread at a time
    if (std::optional<Sent> made = Made(*std::move(promised), step, micro_batch))
      return Take(*std::move(made));
  }
  return source_.Inputs(step, micro_batch);
}

/// Returns the promised inputs if they are for this call. Ignores errors: this thread's attempt reports them.
std::optional<PrefetchedSource::Sent> PrefetchedSource::Made(Promised promised, int64_t step,
                                                             int64_t micro_batch) const {
  const bool is_it =
      promised.step == step && promised.micro_batch == micro_batch && promised.replaced == source_.Replaced();
  if (!is_it) return std::nullopt;
  try {
    return promised.sent.get();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void PrefetchedSource::Ahead(int64_t step, int64_t micro_batch) {
  if (promised_) promised_->sent.wait();
  promised_.reset();
  if (!source_.Has(step, micro_batch)) return;
  std::packaged_task<Sent()> task([this, step, micro_batch] { return MakeAhead(step, micro_batch); });
  promised_ = Promised{step, micro_batch, source_.Replaced(), task.get_future()};
  {
    const MutexLock lock(mutex_);
    task_ = std::move(task);
  }
  changed_.NotifyAll();
}

/// Runs on the prefetch thread, in its stream.
PrefetchedSource::Sent PrefetchedSource::MakeAhead(int64_t step, int64_t micro_batch) {
  Sent sent{source_.Inputs(step, micro_batch), nullptr};
  if (device_.is_cpu()) return sent;
  sent.arrived = std::make_shared<c10::Event>(device_.type());
  sent.arrived->record(stream_);
  return sent;
}

/// Makes the training thread's stream wait for the copies, but not the thread itself. Their memory is reused
/// only when that stream is done with it.
BatchInputs PrefetchedSource::Take(Sent sent) const {
  if (!sent.arrived) return std::move(sent.inputs);
  const at::Stream stream = c10::impl::getDeviceGuardImpl(device_.type())->getStream(device_);
  sent.arrived->block(stream);
  for (const at::Tensor& tensor : sent.inputs.tensors) tensor.record_stream(stream);
  return std::move(sent.inputs);
}

void PrefetchedSource::Run() {
  // The current device and stream are per thread.
  const c10::StreamGuard stream(stream_);
  const MutexLock lock(mutex_);
  while (true) {
    while (!task_ && !closing_) changed_.Wait(mutex_);
    if (closing_) return;
    std::packaged_task<Sent()> task = *std::exchange(task_, std::nullopt);
    mutex_.Unlock();
    task();
    mutex_.Lock();
  }
}

}  // namespace mtrun::trainers
