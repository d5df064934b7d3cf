// Signal names for people. Pure.
#pragma once

#include <string>
#include "base/signal_name.h"

namespace mtrun {

/// Returns "SIGTERM", or "signal 99" for a number without a name.
std::string SignalName(int signal);

}  // namespace mtrun
