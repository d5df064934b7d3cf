// The PCI address of a GPU, for programs that do not know CUDA's index.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// Returns an address like "00000000:17:00.0"; "" if `device` is not a GPU.
std::string PciAddress(c10::Device device);

}  // namespace mtrun::trainers
