// Lists the images in a tree of files: splits, classes, order. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::datasets {

/// One image file: its split, its label and the index of its path.
struct TreeImage {
  absl::string_view split;  // "train", "val" (also for valid/ and validation/) or "test"; a string literal
  int64_t label = 0;
  size_t path = 0;
  bool operator==(const TreeImage&) const = default;
};

/// Files that are left out, counted by reason.
struct LeftOut {
  int64_t others = 0;      // no image by name (Thumbs.db, .DS_Store, *.txt, ...)
  int64_t duplicates = 0;  // a repeated name in an archive: the last one is used, as unpacking would do
  int64_t unlabelled = 0;  // in WebDataset archives: without a class
  int64_t imageless = 0;   // samples of these without the image that was asked for
  int64_t untrained = 0;   // of classes that train lacks
  std::vector<std::string> untrained_classes = {};  // sorted
  int64_t outside = 0;                              // of the split folders, or of the class folders
  std::string outside_folder = {};  // the first of their folders by name; ".": all are in the source itself

  int64_t files() const { return others + duplicates + unlabelled + imageless + untrained + outside; }
  /// Counts a file outside, as `outside`, or as `others` if its name is not an image's.
  void AddOutside(absl::string_view path);
  /// Adds counts that AddOutside made elsewhere.
  void AddPassedOver(const LeftOut& more);
  bool operator==(const LeftOut&) const = default;
};

/// The contents of a tree: classes in the order of their labels, images sorted by split, label and file name.
struct TreeListing {
  std::vector<std::string> classes;
  std::vector<TreeImage> images;
  LeftOut left_out = {};
};

/// Shares of train's images of each class that become other splits (class_share.h); 0: none.
struct Shares {
  double test = 0, val = 0;
};

struct TreeOptions {
  Shares shares = {};
  bool unlabelled = false;                // ignore folder names: all images get one class, "image"
  bool skip_bad = false;                  // leave out duplicates and classes that train lacks
  std::vector<std::string> classes = {};  // label i is classes[i]; empty: those of train, sorted by bytes
};

/// An image file and its known properties; views of texts that the caller keeps.
struct NamedFile {
  absl::string_view prefix;      // the path before the split's or the class's folder
  absl::string_view folder;      // name of the split's folder, "" if there is none
  absl::string_view class_name;  // "" if unlabelled
  absl::string_view file;
  size_t path = 0;  // index among the paths
};

/// Finds the images among the paths of a tree: [prefix/](train|val|valid|validation|test)/<class>/<file>, where
/// <file> can be in folders of its own, or if there are no split folders [prefix/]<class>/<file>, all of train;
/// one prefix for all. Without split folders a class is the last folder if that gives one prefix, and else the
/// first folder that not all images are in. Hidden files
/// (".x") are not images, and hidden folders are ignored. Files outside of the split or class folders are
/// left out and counted. kInvalidArgument names the path that does not fit: a file outside of class folders,
/// a folder that was not listed, two prefixes, or an error of ListNamed.
absl::StatusOr<TreeListing> ListTree(const std::vector<absl::string_view>& paths,
                                     const TreeOptions& options = {});

/// Labels and sorts, after TakeShares. kInvalidArgument: a class that train lacks or a duplicate path, unless
/// skip_bad leaves them out; two names of the val split; no images to train on.
absl::StatusOr<TreeListing> ListNamed(const std::vector<absl::string_view>& paths,
                                      std::vector<NamedFile> files, const TreeOptions& options);

/// The class of all images if they are unlabelled.
inline constexpr char kOneClass[] = "image";
/// Returns the split of a folder ("" for none): "train", "val" or "test"; a string literal.
absl::string_view SplitOf(absl::string_view folder);

/// Returns true for names that begin with a dot, such as "._x", in which macOS keeps attributes of x.
bool IsHiddenName(absl::string_view name);
/// Returns true for a file in a hidden folder, or in the folder that macOS adds to zip archives. `names`: the
/// names of a path, the file's last.
bool IsInHiddenFolder(const std::vector<absl::string_view>& names);
/// Returns true for files that are not images by name: *.txt, Thumbs.db, hidden files.
bool IsNoImageName(absl::string_view file);

}  // namespace mtrun::datasets
