// Host memory on its way to a device and back.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"

namespace mtrun::trainers {

/// An uninitialised tensor in host memory that Send and Fetch can copy to and from `device` without waiting:
/// page-locked where the device is a GPU. Where no more memory can be locked it is ordinary memory: copies
/// take longer and may wait, which is said once.
at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device);

/// `host` on `device`, `host` itself when it is there. The copy takes its place in the device's stream and
/// the caller continues; `host` must not be written to any more, but may be dropped.
at::Tensor Send(const at::Tensor& host, at::Device device);

/// Copies `tensor`, row-major, to `host`: as many bytes of a HostBuffer of bytes, from a multiple of the
/// dtype's size on. From a GPU the copy takes its place in the device's stream and the caller continues.
void Fetch(const at::Tensor& tensor, const at::Tensor& host);

/// Waits, on any thread, until everything that is in the device's stream now is done. kInternal when the
/// device failed meanwhile. Null for the CPU, where everything is.
std::function<absl::Status()> Arrival(at::Device device);

}  // namespace mtrun::trainers
