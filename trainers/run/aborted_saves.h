// Saves that were cut off: their unfinished folders go when the next writer opens the run folder. Those of a
// writer that still works on one stay: it may have lost its place to this one while its disk was slow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mtrun::trainers {

/// Who writes unfinished folders, "<generation>.<place>.<pid>": the place stands for the machine since its
/// start and the namespace of the process id.
std::string SaverName(uint64_t generation);

/// What is known of whoever wrote an unfinished folder.
enum class SaverState {
  kGone,     // no such process
  kRuns,     // there is such a process, which may be another one by now
  kUnknown,  // on another machine, or it left no name
};
/// Of an unfinished folder's name.
SaverState StateOfSaver(std::string_view name);

/// So long after the last write to it nobody works on an unfinished folder any more.
inline constexpr Duration kSaverIsIdle = std::chrono::minutes(10);
/// `idle`: since the last write to it.
bool IsAborted(SaverState saver, Duration idle);

/// Removes them from run folder `path`. A failure is logged, and training continues.
void RemoveAbortedSaves(const std::string& path);

}  // namespace mtrun::trainers
