// Imports the MNIST family: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the same for
// t10k, plain or .gz (format: http://yann.lecun.com/exdb/mnist/). Grey images keep their size and get their
// channel repeated.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// True for a folder that has one of the four files.
bool LooksLikeIdx(const std::string& folder);

/// Reads everything into memory (55 MB at the published size). Classes are Fashion-MNIST's where the folder's
/// name has "fashion" in it, else "0".."9" (or up to the highest label). Errors name the file: kNotFound
/// missing, kInvalidArgument wrong magic number or counts that disagree, kDataLoss truncated or longer than
/// its header says.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenIdx(const std::string& folder);

}  // namespace mtrun::datasets
