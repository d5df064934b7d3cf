// environment.json of a run folder records where and how the run was computed, for its report page.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// Returns for example "LibTorch 2.11.0", followed by " with CUDA" if the build includes it.
std::string LibTorchName();

/// Returns what decides on the last bits of results, for example "AuthenticAMD family 25 model 17, AVX512,
/// LibTorch 2.11.0"; for a GPU its name instead of the processor.
std::string MachineKind(const at::Device& device);

/// Returns an object of strings and numbers: version, command, host, system, processor, device, LibTorch,
/// start time. It contains no environment variables, because they can hold secrets.
std::string EnvironmentJson(const std::string& program, const at::Device& device);

}  // namespace mtrun::trainers
