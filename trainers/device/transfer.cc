#include "trainers/device/transfer.h"

#include <atomic>
#include <memory>
#include <string>

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <torch/types.h>

#include "base/log.h"
#include "trainers/device/torch_status.h"

namespace mtrun::trainers {

namespace {

void WarnOfOrdinaryMemory(const absl::Status& why) {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) return;
  log::Warning(std::string(why.message()), "; using ordinary memory instead: copies to and from ",
               "the GPU take longer (raise ulimit -l, or use a smaller --batch_size)");
}

}  // namespace

at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  if (device.is_cuda()) {
    // LibTorch's host allocator reuses page-locked memory only after the copies from it are done.
    at::Tensor locked;
    const absl::Status status = TorchStatus("allocate page-locked memory", [&] {
      locked = at::empty(sizes, at::TensorOptions(dtype).pinned_memory(true));
    });
    if (status.ok()) return locked;
    WarnOfOrdinaryMemory(status);
  }
  return at::empty(sizes, at::TensorOptions(dtype));
}

at::Tensor Send(const at::Tensor& host, at::Device device) {
  return host.to(device, host.scalar_type(), /*non_blocking=*/true);
}

void Fetch(const at::Tensor& tensor, const at::Tensor& host) {
  // A view shows the allocator of page-locked memory which block the copy uses.
  host.view(tensor.scalar_type()).view(tensor.sizes()).copy_(tensor.detach(), /*non_blocking=*/true);
}

std::function<absl::Status()> Arrival(at::Device device) {
  if (device.is_cpu()) return nullptr;
  // If a thread has chosen no device and waits for an event or destroys it, it initialises the first GPU,
  // which takes hundreds of MiB there.
  const std::shared_ptr<c10::Event> event(new c10::Event(device.type()), [device](c10::Event* gone) {
    const c10::DeviceGuard guard(device);
    delete gone;
  });
  event->record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
  return [event, device] {
    return TorchStatus("copy from the device", [&] {
      const c10::DeviceGuard guard(device);
      event->synchronize();
    });
  };
}

}  // namespace mtrun::trainers
