// environment.json of a run folder: where and how a run was computed, for the page about it.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// "LibTorch 2.11.0", " with CUDA" behind it in a build that has it.
std::string LibTorchName();

/// An object of texts and numbers: version, command, host, system, processor, device, LibTorch, when. Nothing
/// of the environment's variables, which may hold secrets.
std::string EnvironmentJson(const std::string& program, const at::Device& device);

}  // namespace mtrun::trainers
