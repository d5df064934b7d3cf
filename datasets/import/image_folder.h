// Imports trees of image files, <split>/<class>/<image> or <class>/<image>, from a folder or an archive.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// Returns true for a folder with a split folder, or with folders that contain files with image names at any
/// depth (among the first 100,000 entries).
bool LooksLikeImageFolder(const std::string& folder);

/// Returns true if the folder itself contains a file with an image name (among the first 10,000 entries).
bool HoldsImages(const std::string& folder);

/// Opens a folder or an archive, and those in the options for other splits. If the source is used for pixels
/// and the rules fix no size, all images must have the size of the first readable one (FindShape).
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const ImportOptions& options);

/// Makes a source of found images. Warns if there is nothing to evaluate with.
absl::StatusOr<std::unique_ptr<ImageSource>> MakeImageSource(ImageFiles files, const ImportOptions& options);

/// Returns a warning if the images have no test and val split, or if one of these lacks classes; "" otherwise.
std::string EvaluationWarning(const TreeListing& listing, const std::string& name, const Shares& shares);

}  // namespace mtrun::datasets
