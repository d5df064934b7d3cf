// The error file that a worker may leave (TORCHELASTIC_ERROR_FILE): torchrun's JSON, in both of its forms.
// And the one that mtrun leaves for whoever started it. All but WriteOwnErrorFile is pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rendezvous/types.h"

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

/// What mtrun leaves where TORCHELASTIC_ERROR_FILE of its own environment says: the root cause's record as
/// its worker wrote it (`record`, "" when that is on another node or there is none; then one made of what is
/// known), with "errorCode": the exit code, or minus the signal's number as torchrun counts.
std::string OwnErrorFile(std::string_view record, const rendezvous::JobOutcome& outcome);

/// Reads the root cause's record if it lies on this node and writes OwnErrorFile to `path`.
absl::Status WriteOwnErrorFile(const std::string& path, const rendezvous::JobOutcome& outcome);

}  // namespace mtrun::launcher
