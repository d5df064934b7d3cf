// environment.json of a run folder records where and how the run was computed, for its report page.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// Returns for example "LibTorch 2.11.0", followed by " with CUDA" if the build includes it.
std::string LibTorchName();

/// Returns an object of strings and numbers: version, command, host, system, processor, device, LibTorch,
/// start time. It contains no environment variables, because they can hold secrets.
std::string EnvironmentJson(const std::string& program, const at::Device& device);

}  // namespace mtrun::trainers
