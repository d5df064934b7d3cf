// The image files of a source, found and in order.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/file_tree.h"
#include "datasets/tree_listing.h"

namespace mtrun::datasets {

struct ImageFiles {
  std::shared_ptr<const FileTree> tree;
  TreeListing listing;  // its paths are tree->files()

  const SourceFile& file(size_t image) const { return tree->files()[listing.images[image].path]; }
  absl::StatusOr<std::string> Read(size_t image) const { return tree->Read(listing.images[image].path); }
};

/// Errors as OpenFileTree and ListTree.
absl::StatusOr<ImageFiles> FindImageFiles(const std::string& source, const TreeOptions& options,
                                          const std::string& spool_folder);

}  // namespace mtrun::datasets
