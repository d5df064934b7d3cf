// The text of a worker's error, as its agent reports it: its most informative line. Pure text.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace mtrun::rendezvous {

/// Heading of the message of a worker that recorded no error: the end of its output follows.
inline constexpr char kTailHeading[] = "(no error was recorded; the last lines of standard error)";

/// Returns whether the message is the end of a worker's output, because it recorded no error.
bool IsTail(absl::string_view message);
/// Returns the most informative line: the first of a recorded error, the last of output.
absl::string_view ErrorLine(absl::string_view message);
/// Replaces each number (ranks, pids, ports), so that texts can be compared.
std::string WithoutNumbers(absl::string_view text);

}  // namespace mtrun::rendezvous
