// The file in which a failing worker leaves its reason for the launcher (TORCHELASTIC_ERROR_FILE): torchrun's
// JSON. All but WriteErrorFile is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun {

struct ErrorRecord {
  std::string message;    // "ValueError: no such layer"
  std::string callstack;  // "" when there is none
  std::string timestamp;  // as written: seconds since 1970
  bool operator==(const ErrorRecord&) const = default;
};

/// {"message": {"message": M, "extraInfo": {"py_callstack": C, "timestamp": T}}} or {"message": M,
/// "timestamp": T}, T a text or a number. kInvalidArgument for anything else.
absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text);

/// `{"message":{"message":...,"extraInfo":{"py_callstack":"","timestamp":"<seconds>"}}}`.
std::string ErrorFileText(std::string_view message, int64_t unix_seconds);

/// Writes it to `path`, which the launcher names in TORCHELASTIC_ERROR_FILE; "" is fine.
absl::Status WriteErrorFile(const std::string& path, std::string_view message);

}  // namespace mtrun
