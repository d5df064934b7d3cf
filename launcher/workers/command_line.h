// What `ps` and `pgrep -f` show of this process. mtrun forks two more of itself, and `pkill -f mtrun` must
// not hit all three: the one that is left stops the workers. Before the first thread.
#pragma once

#include <string_view>

namespace mtrun::launcher {

/// As main got them: the strings that `argv` points to are what is shown.
void KeepCommandLine(int argc, char** argv);
/// Takes their place, cut where it is longer. Arguments that were read from `argv` before have to be copies.
void SetCommandLine(std::string_view text);

}  // namespace mtrun::launcher
