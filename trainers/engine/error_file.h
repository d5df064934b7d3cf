// The file in which a failing worker leaves its reason for the launcher (torchrun's format).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mtrun::engine {

/// `{"message":{"message":...,"extraInfo":{"py_callstack":"","timestamp":"<seconds>"}}}`.
std::string ErrorFileText(std::string_view message, int64_t unix_seconds);

/// Writes it to TORCHELASTIC_ERROR_FILE, if that is set. `path` "" is fine.
absl::Status WriteErrorFile(const std::string& path, std::string_view message);

}  // namespace mtrun::engine
