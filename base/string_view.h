// Debian's Abseil has a string_view of its own beside the standard one.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace mtrun {

inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace mtrun
