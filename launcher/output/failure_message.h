// What a worker said about its end, cut to what a terminal should show of it. Pure text.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtrun::launcher {

/// Heads the message of a worker that recorded no error: the end of what it printed follows.
inline constexpr char kTailHeading[] = "(no error was recorded; the last lines of standard error)";

/// The error file beside a worker's standard error, "" where `log_file` is not called stderr.log.
std::string ErrorFileBeside(absl::string_view log_file);

/// The line that says most: the first of a recorded error, the last of what a worker only printed. At most
/// kMostColumns of it.
std::string Gist(absl::string_view message);

inline constexpr size_t kMostLines = 12;     // of a cause
inline constexpr size_t kMostColumns = 500;  // of a line: some exceptions are one long one

/// At most kMostLines: of a longer message its beginning and its end, where a traceback has the error and the
/// place. One more line then says how many there are and in which file. `log_file`: the worker's, "" for
/// none.
std::vector<std::string> Excerpt(absl::string_view message, absl::string_view log_file);

}  // namespace mtrun::launcher
