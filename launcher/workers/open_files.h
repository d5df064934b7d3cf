// How many files the workers of a node need open in mtrun, and what fits. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace mtrun::launcher {

/// Returns how many files mtrun has open with that many workers, with or without their log files.
size_t FilesOf(int workers, bool with_logs);

/// Returns whether the log files of that many workers fit into the limit.
inline bool LogsFit(int workers, size_t limit) { return FilesOf(workers, true) <= limit; }
/// Checks, before any worker starts, that the limit suffices for those workers. kResourceExhausted says how
/// to raise it. `with_logs`: their log files were requested.
absl::Status CheckOpenFiles(int workers, bool with_logs, size_t limit);
/// Returns the message for log files that are left out.
std::string LogsLeftOut(int workers, size_t limit);

}  // namespace mtrun::launcher
