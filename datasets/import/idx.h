// Imports the MNIST family: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the same for
// t10k, plain or .gz (format: http://yann.lecun.com/exdb/mnist/). Grey images repeat their channel.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// Returns true for a folder that has one of the four files.
bool LooksLikeIdx(const std::string& folder);

/// Reads everything into memory (55 MB at the published size). Uses the classes of Fashion-MNIST if the
/// folder's name contains "fashion", otherwise "0".."9" (or up to the highest label). Errors name the file:
/// kNotFound if it is missing, kInvalidArgument for a wrong magic number or counts that disagree, kDataLoss
/// if it is truncated or longer than its header says.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenIdx(const std::string& folder);

}  // namespace mtrun::datasets
