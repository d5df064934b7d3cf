// The texts of `mtdata info` and of an import's summary. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "datasets/files/tree_listing.h"
#include "datasets/packed/census.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

/// Returns aligned tables: image size, digest and sizes; splits; images of each class in each split.
std::string InfoText(const std::string& path, const Index& index);
/// Returns more tables for a set of encoded images: a histogram of sizes, formats, bytes per image.
std::string CensusText(const Census& census);

/// Returns the files left out by an import, by reason, or "". `bad`: image files that cannot be read.
std::string LeftOutText(int64_t bad, const LeftOut& counts);

}  // namespace mtrun::datasets
