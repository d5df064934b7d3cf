#include "trainers/device/transfer.h"

#include <memory>

#include <c10/core/Event.h>
#include <torch/types.h>

#include "trainers/device/torch_status.h"

namespace mtrun::trainers {

at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  // Freed page-locked memory is handed out again only when the copies from it are done: LibTorch's host
  // allocator keeps an event for each.
  return at::empty(sizes, at::TensorOptions(dtype).pinned_memory(device.is_cuda()));
}

at::Tensor Send(const at::Tensor& host, at::Device device) {
  return host.to(device, host.scalar_type(), /*non_blocking=*/true);
}

void Fetch(const at::Tensor& tensor, const at::Tensor& host) {
  // A view, so that the allocator of page-locked memory sees whose copy it is.
  host.view(tensor.scalar_type()).view(tensor.sizes()).copy_(tensor.detach(), /*non_blocking=*/true);
}

std::function<absl::Status()> Arrival(at::Device device) {
  if (device.is_cpu()) return nullptr;
  const auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
  return [event] { return TorchStatus("copying from the device", [&] { event->synchronize(); }); };
}

}  // namespace mtrun::trainers
