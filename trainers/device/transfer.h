// Copies host memory to a device and back.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"

namespace mtrun::trainers {

/// Returns an uninitialised tensor in host memory that Send and Fetch can copy to and from `device` without
/// waiting: page-locked if the device is a GPU. If no more memory can be locked, it is ordinary memory and a
/// warning is logged once: copies take longer and may wait.
at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device);

/// Returns `host` on `device`; `host` itself if it is there. The copy is queued in the device's stream and
/// the caller continues. `host` must not be written to any more, but may be dropped.
at::Tensor Send(const at::Tensor& host, at::Device device);

/// Copies `tensor`, row-major, to `host`: as many bytes of a HostBuffer of bytes, from a multiple of the
/// dtype's size on. From a GPU the copy is queued in the device's stream and the caller continues.
void Fetch(const at::Tensor& tensor, const at::Tensor& host);

/// Returns a function that waits, on any thread, until everything that is now in the device's stream is done.
/// It returns kInternal if the device fails. Null for the CPU, which has no stream.
std::function<absl::Status()> Arrival(at::Device device);

}  // namespace mtrun::trainers
