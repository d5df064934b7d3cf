// environment.json of a run folder: where and how a run was computed, for the page about it.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// An object of texts and numbers: version, command, host, system, processor, device, LibTorch, when. Nothing
/// of the environment's variables, which may hold secrets.
std::string EnvironmentJson(const std::string& program, const at::Device& device);

}  // namespace mtrun::trainers
