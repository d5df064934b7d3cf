// The names in a folder, sorted.
#pragma once

#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun {

/// If the folder cannot be read, or not any further, sets `error`, if given, and returns the names read before.
std::vector<std::string> NamesIn(const std::string& folder, std::error_code* error = nullptr);
/// The same, or the error: "list FOLDER: No such file or directory".
absl::StatusOr<std::vector<std::string>> ListNames(const std::string& folder);

}  // namespace mtrun
