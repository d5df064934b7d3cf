// What somebody hears who connects to a port of this machine and says nothing.
#pragma once

#include <string>

#include "tests/support/program.h"

namespace mtrun::support {

/// All that comes from 127.0.0.1:`port` until the other end closes; "refused" when nobody listens there,
/// "reset", or "silent" when it has not come to an end within `patience`.
std::string HearAt(int port, Seconds patience = kPatience);

}  // namespace mtrun::support
