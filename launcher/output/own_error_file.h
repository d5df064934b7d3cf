// The error file that mtrun leaves for its parent process, in torchrun's format. Pure but WriteOwnErrorFile.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Returns the content for mtrun's own TORCHELASTIC_ERROR_FILE: the root cause's record as its worker wrote
/// it, with "errorCode": the exit code, or minus the signal number as in torchrun. `record` is "" if the
/// record is on another node or missing; one is then made from the known facts.
std::string OwnErrorFile(std::string_view record, const rendezvous::JobOutcome& outcome);

/// Reads the root cause's record if it is on this node, and writes OwnErrorFile to `path`.
absl::Status WriteOwnErrorFile(const std::string& path, const rendezvous::JobOutcome& outcome);

}  // namespace mtrun::launcher
