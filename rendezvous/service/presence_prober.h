// Looks at the presence ports of many members at once: one poll(2) loop, no threads. Blocking. Any thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/events.h"

namespace mtrun::rendezvous {

/// Node ids.
struct PresenceFound {
  std::set<std::string> alive;  // answered with their id
  std::set<std::string> dead;   // refused by their host, or something else answers at their port
};

/// So many descriptors are open at most.
inline constexpr size_t kPresenceCallsAtOnce = 256;

/// Each member has `patience` for its greeting; those that were not heard to the end are in neither set.
/// Takes `patience` for every kPresenceCallsAtOnce members that are silent, and as long again where names are
/// looked up.
PresenceFound ProbePresence(const std::map<std::string, PresenceProbe>& members, Duration patience);

}  // namespace mtrun::rendezvous
