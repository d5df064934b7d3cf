// The text of `mtdata info`. Pure.
#pragma once

#include <string>

#include "datasets/index.h"

namespace mtrun::datasets {

/// Aligned tables: image size, digest and sizes; splits; images of each class in each split.
std::string InfoText(const std::string& path, const Index& index);

}  // namespace mtrun::datasets
