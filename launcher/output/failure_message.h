// A worker's error text, cut to a length that suits a terminal. Pure text.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rendezvous/wire/error_text.h"

namespace mtrun::launcher {

using rendezvous::IsTail;
using rendezvous::kTailHeading;

/// Returns the error file next to a worker's standard error; "" if `log_file` is not called stderr.log.
std::string ErrorFileBeside(absl::string_view log_file);

/// Returns the most informative line, cut to kMaxColumns.
std::string Gist(absl::string_view message);

inline constexpr size_t kMaxLines = 12;     // per cause
inline constexpr size_t kMaxColumns = 500;  // per line: some exceptions are one long line

/// Returns at most kMaxLines lines: the beginning and end of the message, where a traceback has error and
/// location. One more line then counts the omitted lines and names their file. `log_file`: "" for none.
std::vector<std::string> Excerpt(absl::string_view message, absl::string_view log_file);

}  // namespace mtrun::launcher
