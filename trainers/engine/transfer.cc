#include "trainers/engine/transfer.h"

#include <torch/torch.h>

namespace mtrun::engine {

at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  // Freed page-locked memory is handed out again only when the copies from it are done: LibTorch's host
  // allocator keeps an event for each.
  return at::empty(sizes, at::TensorOptions(dtype).pinned_memory(device.is_cuda()));
}

at::Tensor Send(const at::Tensor& host, at::Device device) {
  return host.to(device, host.scalar_type(), /*non_blocking=*/true);
}

}  // namespace mtrun::engine
