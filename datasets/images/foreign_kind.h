// Names of image and document formats that are not read, so that a refusal can say what a file is. Pure;
// thread-safe.
#pragma once

#include <string_view>

namespace mtrun::datasets {

/// Returns the format with its article ("a GIF", "an ICO"), found by the file's signature; "" if none is
/// known.
std::string_view ForeignKind(std::string_view file);

}  // namespace mtrun::datasets
