// What PyPI's tensorboard makes of a folder of event files: tests/tensorboard/read_package.py.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace mtrun::tensorboard {

/// The interpreter of tools/setup --test-tools; "" where it has no tensorboard.
std::string PackagePython();

/// `how`: accumulator, or slow or fast, a whole TensorBoard with one of its two loaders. With `points` of
/// that tag, [[step, value], ...], or `error`.
nlohmann::json ReadByPackage(const std::string& how, const std::string& folder, const std::string& tag);

}  // namespace mtrun::tensorboard
