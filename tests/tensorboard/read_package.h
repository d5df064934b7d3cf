// Reads a folder of event files with PyPI's tensorboard: tests/tensorboard/read_package.py.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace mtrun::tensorboard {

/// Returns the interpreter of tools/setup --test-tools, or "" if it has no tensorboard.
std::string PackagePython();

/// Returns `points` of that tag, [[step, value], ...], or `error`. `how`: accumulator, or slow or fast: a
/// whole TensorBoard with one of its two loaders.
nlohmann::json ReadByPackage(const std::string& how, const std::string& folder, const std::string& tag);

}  // namespace mtrun::tensorboard
