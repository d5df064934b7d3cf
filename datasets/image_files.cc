#include "datasets/image_files.h"

#include <utility>
#include <vector>
#include "absl/strings/string_view.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::datasets {

absl::StatusOr<ImageFiles> FindImageFiles(const std::string& source, const TreeOptions& options,
                                          const std::string& spool_folder) {
  ImageFiles found;
  MT_ASSIGN_OR_RETURN(found.tree, OpenFileTree(source, spool_folder));
  std::vector<absl::string_view> paths;
  for (const SourceFile& file : found.tree->files()) paths.push_back(file.path);
  auto listing = ListTree(paths, options);
  if (!listing.ok()) return Annotate(listing.status(), source);
  found.listing = *std::move(listing);
  if (found.listing.others > 0)
    log::Info(source, ": ", found.listing.others, " files are no images by their names");
  if (found.listing.images.front().split == "train")
    log::Warning(source,
                 " has no test/ or val/, so there is nothing to evaluate with; --test_share 0.1 takes a "
                 "tenth of the images");
  return found;
}

}  // namespace mtrun::datasets
