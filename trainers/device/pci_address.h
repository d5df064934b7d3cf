// Where a GPU is, for programs that do not know it by CUDA's index.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// "00000000:17:00.0"; "" for what is no GPU.
std::string PciAddress(c10::Device device);

}  // namespace mtrun::trainers
