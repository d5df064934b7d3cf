// The same for Prometheus: its text format, version 0.0.4, with its naming conventions. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace mtrun::page {

/// Of what StateJson and SilenceJson make.
std::string MetricsText(const nlohmann::json& state);

/// A label's value with \\, \" and line ends escaped.
std::string LabelText(const std::string& value);

}  // namespace mtrun::page
