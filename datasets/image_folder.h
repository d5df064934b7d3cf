// Imports trees of image files: <split>/<class>/<image>, or <class>/<image>, from a folder or straight from
// an archive.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// True for a folder that has a split folder in it, or folders with files that are images by their names.
bool LooksLikeImageFolder(const std::string& folder);

/// Opens a folder or an archive, and those that the options give for other splits. As a source of pixels,
/// where the rules fix no size, all images must have one, that of the first one that can be read (FindShape).
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& source,
                                                             const SourceOptions& options);

/// A source of images whose files are found. The listing must not be empty. `name` stands in messages.
absl::StatusOr<std::unique_ptr<ImageSource>> MakeImageSource(ImageFiles files, const std::string& name,
                                                             const ImageRules& rules);

}  // namespace mtrun::datasets
