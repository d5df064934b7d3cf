// Probes the presence ports of many members in one poll(2) loop, without threads. Blocking. Any thread.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/events.h"

namespace mtrun::rendezvous {

/// Maximum number of open descriptors.
inline constexpr size_t kPresenceCallsAtOnce = 256;

/// Returns which members are alive (they answered with their id) and dead (their host refuses, or their port
/// gives another answer). Waits `timeout` for each greeting; an incomplete one proves nothing.
/// Takes `timeout` for every kPresenceCallsAtOnce silent members, and as long again if names are looked up.
ProbeResult ProbePresence(const std::map<std::string, PresenceProbe>& members, Duration timeout);

}  // namespace mtrun::rendezvous
