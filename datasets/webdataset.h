// Imports WebDataset archives: tar files whose samples are <key>.jpg (or .png) beside <key>.cls or
// <key>.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// True for a folder with tar archives in it or in its split folders, the first of which holds samples.
bool LooksLikeWebDataset(const std::string& folder);
/// True once an image and a .cls or .json of the same sample are among the names.
bool LooksLikeSamples(const std::vector<std::string>& names);

/// `source`: an archive, a brace list of archives, or a folder of them. The split of an archive is what its
/// source is given for (val_source, test_source), else its split folder, else what its name tells, else
/// train. Classes given by number keep their numbers; the class list names them, else they are called "0",
/// "1", ...
absl::StatusOr<std::unique_ptr<ImageSource>> OpenWebDataset(const std::string& source,
                                                            const SourceOptions& options);

}  // namespace mtrun::datasets
