// What a worker has left about its end: its error file, and what it printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/output/log_files.h"

namespace mtrun::launcher {

/// When the worker wrote its error file, in nanoseconds since 1970; nothing without one. The file's own
/// timestamp is in whole seconds, too coarse to tell cause from consequence.
std::optional<int64_t> RecordedAt(const WorkerFiles& files);

/// What the worker said about its end: its error file, else `tail`, the last lines of its standard error.
/// These first where the file is of an error that was `handled`. A file that cannot be read is told with why.
std::string FailureMessage(const WorkerFiles& files, const std::string& tail, bool handled);

}  // namespace mtrun::launcher
