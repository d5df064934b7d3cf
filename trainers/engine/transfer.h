// Host memory on its way to a device.
#pragma once

#include <ATen/core/Tensor.h>

namespace mtrun::engine {

/// An uninitialised tensor in host memory that Send can copy to `device` without waiting: page-locked where
/// the device is a GPU.
at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device);

/// `host` on `device`, `host` itself when it is there. The copy takes its place in the device's stream and
/// the caller goes on; `host` must not be written to any more, but may be dropped.
at::Tensor Send(const at::Tensor& host, at::Device device);

}  // namespace mtrun::engine
