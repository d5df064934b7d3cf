// The command line that `ps` and `pgrep -f` show for this process. mtrun forks two copies of itself, and
// `pkill -f mtrun` must not hit all three: the survivor stops the workers. Call before the first thread.
#pragma once

#include <string_view>

namespace mtrun::launcher {

/// Records main's arguments: the strings that `argv` points to are the ones shown.
void KeepCommandLine(int argc, char** argv);
/// Overwrites them with `text`, truncated to their length. Arguments read from `argv` before must be copies.
void SetCommandLine(std::string_view text);

}  // namespace mtrun::launcher
