// Imports WebDataset archives: tar files with samples <key>.jpg (or .png) and <key>.cls or <key>.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// Returns true if the first tar archive, in the folder or its split folders, contains samples.
bool LooksLikeWebDataset(const std::string& folder);
/// Returns true if the last name completes an image and a .cls or .json of the same sample.
bool LooksLikeSamples(const std::vector<std::string>& names);

/// Opens an archive, a brace list of archives, or a folder of them. The split of an archive is the
/// one its source is given for (val_source, test_source), otherwise that of its split folder or its name,
/// otherwise train. Numeric classes keep their numbers, which are also their names if no class list is given.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenWebDataset(const ImportOptions& options);

}  // namespace mtrun::datasets
