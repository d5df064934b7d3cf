// The page's state for Prometheus: text format version 0.0.4, with its naming conventions. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace mtrun::page {

/// Converts the output of StateJson or SilenceJson.
std::string MetricsText(const nlohmann::json& state);

/// Escapes \\, \" and line ends in a label's value.
std::string LabelText(const std::string& value);

}  // namespace mtrun::page
