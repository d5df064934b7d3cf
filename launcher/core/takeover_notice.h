// Tells people where to ask about the job after its service has moved from the endpoint. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/wire/events.h"

namespace mtrun::launcher {

/// Returns the line of the node that serves the job since it has connected to the service of `now` instead of
/// `before`; "" on other nodes, at the endpoint, and if nothing has changed. `own`: its presence id.
std::string DescribeTakeover(const rendezvous::ServiceHost& before, const rendezvous::ServiceHost& now,
                             uint64_t own, bool insecure);

}  // namespace mtrun::launcher
