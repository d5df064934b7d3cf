// Imports the binary version of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html), from a
// folder or its tar archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"

namespace mtrun::datasets {

/// True when these file names (paths of a folder or an archive) hold a CIFAR binary version:
/// data_batch_*.bin, or train.bin and test.bin.
bool LooksLikeCifar(const std::vector<std::string>& names);
/// True for names of the Python version (data_batch_1 without .bin), which cannot be imported.
bool LooksLikePythonCifar(const std::vector<std::string>& names);

/// The folder itself, or its one subfolder that holds the .bin files; "" when there is none.
std::string FindCifarFolder(const std::string& folder);

/// Reads everything into memory (180 MB at the published size). Fine labels are taken for CIFAR-100.
/// kDataLoss: a file's size is not a whole number of records, or a label is out of range, with the file's
/// name; kNotFound: a file of the set is missing.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenCifar(const std::string& source);

}  // namespace mtrun::datasets
