// The texts of `mtdata info` and of the end of an import. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "datasets/census.h"
#include "datasets/index.h"
#include "datasets/tree_listing.h"

namespace mtrun::datasets {

/// Aligned tables: image size, digest and sizes; splits; images of each class in each split.
std::string InfoText(const std::string& path, const Index& index);
/// More tables, for a set of encoded images: a histogram of sizes, formats, bytes of one image.
std::string CensusText(const Census& census);

/// What an import left out, by the reason; "" when it took everything. `bad`: image files that cannot be
/// read.
std::string LeftOutText(int64_t bad, const LeftOut& counts);

}  // namespace mtrun::datasets
