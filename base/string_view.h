// Conversion to Abseil's string_view, which in Debian's build is a type of its own.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace mtrun {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace mtrun
