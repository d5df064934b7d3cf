// Evidence that a worker leaves about its exit: its error file and its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/output/log_files.h"

namespace mtrun::launcher {

/// Returns when the worker wrote its error file, in nanoseconds since 1970; nullopt if there is none. The
/// file's own timestamp is in whole seconds, too coarse to order cause and consequence.
std::optional<int64_t> RecordedAt(const WorkerFiles& files);

/// Returns the worker's last error: its error file, otherwise `tail`, the last lines of its standard error.
/// If the file's error was `handled`, `tail` is preferred. If the file cannot be read, the reason is added.
std::string FailureMessage(const WorkerFiles& files, const std::string& tail, bool handled);

}  // namespace mtrun::launcher
