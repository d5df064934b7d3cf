// The networks in Python: model.py of an exported folder, which needs only PyTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// Returns model.py for a program, from these files of trainers/program/python in order. {}: the file with
/// its name. `classifies`: adds functions to read and classify image files. kNotFound: a file is missing.
absl::StatusOr<std::string> PythonModel(std::string_view program, const std::vector<std::string>& files,
                                        bool classifies);

}  // namespace mtrun::trainers
