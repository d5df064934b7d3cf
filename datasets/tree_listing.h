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
  absl::string_view split;  // "train", "val" (also for valid/ and validation/) or "test", for ever
  int64_t label = 0;
  size_t path = 0;
  bool operator==(const TreeImage&) const = default;
};

/// Files that are left out, counted by the reason.
struct LeftOut {
  int64_t others = 0;      // no images by their names (Thumbs.db, .DS_Store, *.txt, ...)
  int64_t duplicates = 0;  // a name twice in an archive: the last one counts, as unpacking would have it
  int64_t unlabelled = 0;  // in WebDataset archives: nothing tells their class
  int64_t untrained = 0;   // of classes that train lacks
  std::vector<std::string> untrained_classes = {};  // sorted
  int64_t outside = 0;                              // of the split folders, or of the class folders
  std::string outside_folder = {};  // the first of their folders by name; ".": all lie in the source itself

  int64_t files() const { return others + duplicates + unlabelled + untrained + outside; }
  /// One that lies outside, which is no image by its name or may be one.
  void AddOutside(absl::string_view path);
  /// What AddOutside has counted elsewhere.
  void AddPassedOver(const LeftOut& more);
  bool operator==(const LeftOut&) const = default;
};

/// What a tree holds: classes in the order of their labels, images sorted by split, label and file name.
struct TreeListing {
  std::vector<std::string> classes;
  std::vector<TreeImage> images;
  LeftOut left_out = {};
};

struct TreeOptions {
  double test_share = 0;    // of the images that become the test split, where there is no other than train
  bool unlabelled = false;  // folders are no classes: all images are of one, "image"
  bool skip_bad = false;    // leave out duplicates and classes that train lacks
  std::vector<std::string> classes = {};  // label i is classes[i]; empty: those of train, sorted by bytes
};

/// An image file and what is known of it; views of texts that the caller keeps.
struct NamedFile {
  absl::string_view prefix;      // what stands before the split's or the class's folder
  absl::string_view folder;      // that of the split, "" without one
  absl::string_view class_name;  // "" when unlabelled
  absl::string_view file;
  size_t path = 0;  // its place among the paths
};

/// Finds the images among the paths of a tree: [prefix/](train|val|valid|validation|test)/<class>/<file>, or
/// without any split folder [prefix/]<class>/<file>, which are all of train; one prefix for all. Hidden names
/// (".x") count as no images, what lies in hidden folders is passed over, and so is what lies outside the
/// split or class folders, which is counted. kInvalidArgument names the path that does not fit: a file in no
/// class folder, a folder in a class folder, two prefixes, and what ListNamed refuses.
absl::StatusOr<TreeListing> ListTree(const std::vector<absl::string_view>& paths,
                                     const TreeOptions& options = {});

/// Labels and sorts. With a test share an image is of test when the first 8 bytes of
/// SHA-256("<class>/<file>"), big-endian, are below test_share 2^64: it does not depend on the others.
/// kInvalidArgument, unless skip_bad leaves them out: a class that train lacks, a path twice; always: two
/// names of the val split, no images to train on.
absl::StatusOr<TreeListing> ListNamed(const std::vector<absl::string_view>& paths,
                                      std::vector<NamedFile> files, const TreeOptions& options);

/// True for what lies in hidden folders, or in what macOS puts beside the files of a zip archive: the names
/// of a path, the last one the file's.
bool IsInHiddenFolder(const std::vector<absl::string_view>& names);
/// True for files that are no images by their names: *.txt, Thumbs.db, hidden ones.
bool IsNoImageName(absl::string_view file);

}  // namespace mtrun::datasets
