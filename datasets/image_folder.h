// Imports `train/<class>/*` with `test/<class>/*` or `val/<class>/*`, from a folder or straight from a tar
// archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// One image file: where it goes and its path in the source.
struct TreeImage {
  std::string split;  // "train", or "test" (also for val/)
  int64_t label = 0;
  std::string path;
  bool operator==(const TreeImage&) const = default;
};

/// What a tree holds: classes sorted by bytes, images sorted by split, class and file name.
struct TreeListing {
  std::vector<std::string> classes;
  std::vector<TreeImage> images;
};

/// Finds the images among the paths of a tree: [prefix/](train|test|val)/<class>/<file>, one prefix for all.
/// Hidden names (".x") and files outside the split folders are passed over. Pure. kInvalidArgument names the
/// path that does not fit: a file in no class folder, a folder in a class folder, a class of test that train
/// lacks, both test and val, a path twice, no images to train on.
absl::StatusOr<TreeListing> ListTree(std::vector<std::string> paths);

/// True for a folder that has train/, test/ or val/ in it.
bool LooksLikeImageFolder(const std::string& folder);

/// Opens a folder or an archive. Without a resize all images must have one size, that of the first one that
/// can be read.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& source,
                                                             const SourceOptions& options);

}  // namespace mtrun::datasets
