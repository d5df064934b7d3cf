// The file in which a failing worker leaves its reason for the launcher (TORCHELASTIC_ERROR_FILE): torchrun's
// JSON. All but ReadErrorFile and WriteErrorFile is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun {

/// More is not read of an error file.
inline constexpr size_t kMostErrorFileBytes = 1 << 20;

struct ErrorRecord {
  std::string message;    // "ValueError: no such layer"
  std::string callstack;  // "" when there is none
  std::string timestamp;  // as written: seconds since 1970
  bool operator==(const ErrorRecord&) const = default;
};

/// {"message": {"message": M, "extraInfo": {"py_callstack": C, "timestamp": T}}} or {"message": M,
/// "timestamp": T}, T a text or a number. kInvalidArgument for anything else.
absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text);

/// What the file at `path` says. kNotFound without one; what else keeps it from being read is told with its
/// path and how it begins.
absl::StatusOr<ErrorRecord> ReadErrorFile(const std::string& path);

/// `{"message":{"message":...,"extraInfo":{"py_callstack":"","timestamp":"<seconds>"}}}`.
std::string ErrorFileText(std::string_view message, int64_t unix_seconds);

/// Writes it to `path`, which the launcher names in TORCHELASTIC_ERROR_FILE; "" is fine.
absl::Status WriteErrorFile(const std::string& path, std::string_view message);

}  // namespace mtrun
