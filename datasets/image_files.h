// The image files of a source, found and in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "datasets/file_tree.h"
#include "datasets/tree_listing.h"

namespace mtrun::datasets {

struct ImageFiles {
  std::shared_ptr<const FileTree> tree;
  TreeListing listing;  // its paths are tree->files()

  const SourceFile& file(size_t image) const { return tree->files()[listing.images[image].path]; }
  absl::StatusOr<std::string> Read(size_t image) const { return tree->Read(listing.images[image].path); }
  /// Of tree->files().
  std::vector<absl::string_view> Paths() const;
};

/// What is asked for of a source: where the splits lie, how they are labelled.
struct FileSources {
  std::string source;
  std::string val_source = "", test_source = "";  // "": in `source`, if at all
  std::string val_labels = "", class_list = "";   // files (ground_truth.h, class_list.h)
  TreeOptions tree = {};
  std::string spool_folder = ".";
};

/// With val_labels the images of val may lie in any folder. Errors as OpenFileTree, ListTree and FindClasses.
absl::StatusOr<ImageFiles> FindImageFiles(const FileSources& sources);

}  // namespace mtrun::datasets
