// Prints a program's answer on standard output and checks that all of it was written; prints its errors.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtrun {

/// Writes `text` after the buffered output of std::cout and stdout and flushes everything. Returns an error
/// such as "write to standard output: No space left on device", so that a truncated file is not taken for the
/// answer. Use it for query commands only: a blocked console must not end a job.
absl::Status PrintOut(std::string_view text);
/// The same; on a terminal, lines that are too long are wrapped, and those after the first of each have
/// `indent` blanks.
absl::Status PrintOut(std::string_view text, size_t indent);

/// Writes "program: message" on standard error, wrapped as PrintOut does on a terminal.
void PrintError(std::string_view program, absl::string_view message);

}  // namespace mtrun
