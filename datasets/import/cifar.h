// Imports the binary version of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html) from a
// folder or its tar archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// Returns true if these file names (paths in a folder or an archive) are of the CIFAR binary version:
/// data_batch_*.bin, or train.bin and test.bin.
bool LooksLikeCifar(const std::vector<std::string>& names);
/// Returns true if they are of the Python version (data_batch_1 without .bin), which cannot be imported.
bool LooksLikePythonCifar(const std::vector<std::string>& names);

/// Returns the folder itself, or its only subfolder that contains the .bin files; "" if there is none.
std::string FindCifarFolder(const std::string& folder);

/// Reads everything into memory (180 MB at the published size), with the fine labels of CIFAR-100. kDataLoss:
/// a file's size is not a whole number of records, or a label is out of range; the message names the file.
/// kNotFound: a file of the set is missing.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenCifar(const std::string& source);

}  // namespace mtrun::datasets
