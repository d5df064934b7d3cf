// Moves a share of each class's training images to the test and the val split. Pure.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "datasets/files/tree_listing.h"

namespace mtrun::datasets {

/// Moves images of train: of the n images of each class, the floor(share n + 1/2) ones, at least 1, with the
/// lowest first 8 bytes (big-endian) of SHA-256("<class>/<file>"); if equal, those with the lower path. Takes
/// the test images first, then those of val, and always leaves one image of each class in train. A repeated
/// path is one image. kInvalidArgument: a split to fill has images already.
absl::Status TakeShares(const std::vector<absl::string_view>& paths, const Shares& shares,
                        std::vector<NamedFile>& files);

}  // namespace mtrun::datasets
