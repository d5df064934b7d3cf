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

/// State of the process that wrote an unfinished folder.
enum class SaverState {
  kGone,     // the process does not exist
  kRuns,     // a process with this PID exists, possibly another one by now
  kUnknown,  // on another machine, or the name of the folder has no PID
};
/// Returns the state of the process that is named in an unfinished folder's `name`.
SaverState StateOfSaver(std::string_view name);

/// An unfinished folder without a write for this long is abandoned.
inline constexpr Duration kSaverIsIdle = std::chrono::minutes(10);
/// Returns whether an unfinished folder can be removed. `idle`: time since the last write to it.
bool IsAborted(SaverState saver, Duration idle);

/// Removes all aborted saves from run folder `path`. A failure is logged, and training continues.
void RemoveAbortedSaves(const std::string& path);

}  // namespace mtrun::trainers
