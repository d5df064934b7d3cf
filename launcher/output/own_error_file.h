// The error file that mtrun leaves for whoever started it, in torchrun's form. All but WriteOwnErrorFile is
// pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// What mtrun leaves where TORCHELASTIC_ERROR_FILE of its own environment says: the root cause's record as
/// its worker wrote it (`record`, "" when that is on another node or there is none; then one made of what is
/// known), with "errorCode": the exit code, or minus the signal's number as torchrun counts.
std::string OwnErrorFile(std::string_view record, const rendezvous::JobOutcome& outcome);

/// Reads the root cause's record if it lies on this node and writes OwnErrorFile to `path`.
absl::Status WriteOwnErrorFile(const std::string& path, const rendezvous::JobOutcome& outcome);

}  // namespace mtrun::launcher
