// The response of a port of this machine to a silent connection.
#pragma once

#include <string>

#include "tests/support/program.h"

namespace mtrun::support {

/// Returns all data from 127.0.0.1:`port` until the other end closes; "refused" if there is no listener,
/// "reset", or "silent" if it has not ended within `patience`.
std::string HearAt(int port, Seconds patience = kPatience);

}  // namespace mtrun::support
