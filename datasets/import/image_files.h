// The image files of a source, in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "datasets/files/file_tree.h"
#include "datasets/files/tree_listing.h"
#include "datasets/import/import_options.h"

namespace mtrun::datasets {

struct ImageFiles {
  std::shared_ptr<const FileTree> tree;
  TreeListing listing;  // its paths are tree->files()

  const SourceFile& file(size_t image) const { return tree->files()[listing.images[image].path]; }
  absl::StatusOr<std::string> Read(size_t image) const { return tree->Read(listing.images[image].path); }
  /// Returns the paths of tree->files().
  std::vector<absl::string_view> Paths() const;
};

/// Returns the folder that will contain the destination, for unpacked data (Contents).
std::string SpoolFolder(const ImportOptions& options);

/// With val_labels, val's images may be in any folder. Errors as for OpenFileTree, CheckLayout, ListTree and
/// FindClasses.
absl::StatusOr<ImageFiles> FindImageFiles(const ImportOptions& options);

}  // namespace mtrun::datasets
