// The error file that a worker may leave (TORCHELASTIC_ERROR_FILE): torchrun's JSON, in both of its forms.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct ErrorRecord {
  std::string message;    // "ValueError: no such layer"
  std::string callstack;  // "" when there is none
  std::string timestamp;  // as written: seconds since 1970
  bool operator==(const ErrorRecord&) const = default;
};

/// {"message": {"message": M, "extraInfo": {"py_callstack": C, "timestamp": T}}} or {"message": M,
/// "timestamp": T}, T a text or a number. kInvalidArgument for anything else.
absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text);

}  // namespace mtrun::launcher
