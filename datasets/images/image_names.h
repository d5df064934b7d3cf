// Names of files that can be images. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::datasets {

/// Returns true for "jpg", "PNG" and all other endings, without their dot, that an import takes for images.
bool IsImageExtension(std::string_view extension);
/// Returns true if the name ends with a dot and such an ending.
bool HasImageName(std::string_view name);
/// Returns ".jpg, .jpeg, ... or .pnm".
std::string ImageExtensions();

}  // namespace mtrun::datasets
