// The file in which a failing worker leaves its reason for the launcher (TORCHELASTIC_ERROR_FILE): torchrun's
// JSON. Pure except for ReadErrorFile and WriteErrorFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun {

/// Maximum number of bytes read from an error file.
inline constexpr size_t kMaxErrorFileBytes = 1 << 20;

struct ErrorRecord {
  std::string message;    // "ValueError: no such layer"
  std::string callstack;  // "" if there is none
  std::string timestamp;  // as written: seconds since 1970
  bool operator==(const ErrorRecord&) const = default;
};

/// Parses {"message": {"message": M, "extraInfo": {"py_callstack": C, "timestamp": T}}} or {"message": M,
/// "timestamp": T}, where T is a text or a number. kInvalidArgument for anything else.
absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text);

/// Reads the file at `path`. kNotFound if it does not exist; other errors name its path and quote how it
/// begins.
absl::StatusOr<ErrorRecord> ReadErrorFile(const std::string& path);

/// Returns `{"message":{"message":...,"extraInfo":{"py_callstack":"","timestamp":"<seconds>"}}}`.
std::string ErrorFileText(std::string_view message, int64_t unix_seconds);

/// Writes an error file to `path`, the value of TORCHELASTIC_ERROR_FILE. Does nothing if `path` is "".
absl::Status WriteErrorFile(const std::string& path, std::string_view message);

}  // namespace mtrun
