// Signal names for people. Pure.
#pragma once

#include <string>

namespace mtrun {

/// Returns "SIGTERM", or "signal 99" for a number without a name.
std::string SignalName(int signal);

}  // namespace mtrun
