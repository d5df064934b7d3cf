// The text of `mtdata info`. Pure.
#pragma once

#include <string>

#include "datasets/census.h"
#include "datasets/index.h"

namespace mtrun::datasets {

/// Aligned tables: image size, digest and sizes; splits; images of each class in each split.
std::string InfoText(const std::string& path, const Index& index);
/// More tables, for a set of encoded images: a histogram of sizes, formats, bytes of one image.
std::string CensusText(const Census& census);

}  // namespace mtrun::datasets
