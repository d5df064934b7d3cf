// Removal of the unfinished folders of aborted saves when the next writer opens the run folder. The folders
// of a writer that is still saving are kept: it may have lost its role to this one while its disk was slow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mtrun::trainers {

/// Returns the name of this process's unfinished folders, "<generation>.<place>.<pid>". The place identifies
/// the boot of the machine and the PID namespace.
std::string SaverName(uint64_t generation);

/// Returns whether the process that is named in an unfinished folder's `name` does not exist. Returns false if a
/// process with its PID exists, possibly another one by now, and if it is on another machine or has no PID.
bool IsSaverGone(std::string_view name);

/// An unfinished folder without a write for this long is abandoned.
inline constexpr Duration kSaverIsIdle = std::chrono::minutes(10);
/// Returns whether an unfinished folder can be removed. `gone`: IsSaverGone; `idle`: time since the last write
/// to it.
bool IsAborted(bool gone, Duration idle);

/// Removes all aborted saves from run folder `path`. A failure is logged, and training continues.
void RemoveAbortedSaves(const std::string& path);

}  // namespace mtrun::trainers
