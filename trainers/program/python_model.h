// The networks in Python: model.py of an exported folder, which needs PyTorch alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// The text for a program, of these files of trainers/program/python, in order; {}: of the one with its name.
/// `classifies`: with functions that read and classify image files. kNotFound: there is no such file.
absl::StatusOr<std::string> PythonModel(std::string_view program, const std::vector<std::string>& files,
                                        bool classifies);

}  // namespace mtrun::trainers
