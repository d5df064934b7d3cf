// Which images a tree of files holds: splits, classes, order. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include "absl/strings/string_view.h"

#include "absl/status/statusor.h"

namespace mtrun::datasets {

/// One image file: where it goes and which of the paths it is.
struct TreeImage {
  std::string split;  // "train", "val" (also for valid/ and validation/) or "test"
  int64_t label = 0;
  size_t path = 0;
  bool operator==(const TreeImage&) const = default;
};

/// What a tree holds: classes sorted by bytes, images sorted by split, class and file name.
struct TreeListing {
  std::vector<std::string> classes;
  std::vector<TreeImage> images;
  int64_t others = 0;  // files that are no images by their names (Thumbs.db, *.txt, ...)
};

struct TreeOptions {
  double test_share = 0;    // of the images that become the test split, where there is no other than train
  bool unlabelled = false;  // folders are no classes: all images are of one, "image"
};

/// Finds the images among the paths of a tree: [prefix/](train|val|valid|validation|test)/<class>/<file>, or
/// without any split folder [prefix/]<class>/<file>, which are all of train; one prefix for all. Hidden names
/// (".x") and files outside the split folders are passed over. With a test share an image is of test when the
/// first 8 bytes of SHA-256("<class>/<file>"), big-endian, are below test_share 2^64: it does not depend on
/// the others. kInvalidArgument names the path that does not fit: a file in no class folder, a folder in a
/// class folder, a class that train lacks, two names of the val split, a path twice, no images to train on.
absl::StatusOr<TreeListing> ListTree(const std::vector<absl::string_view>& paths,
                                     const TreeOptions& options = {});

}  // namespace mtrun::datasets
