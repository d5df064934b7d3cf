// Probes the presence ports of many members in one poll(2) loop, without threads. Blocking. Any thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/events.h"

namespace mtrun::rendezvous {

/// The result, by node ids.
struct PresenceFound {
  std::set<std::string> alive;  // answered with their id
  std::set<std::string> dead;   // refused by their host, or their port gives another answer
};

/// Maximum number of open descriptors.
inline constexpr size_t kPresenceCallsAtOnce = 256;

/// Waits `timeout` for each member's greeting; members whose greeting was incomplete are in neither set.
/// Takes `timeout` for every kPresenceCallsAtOnce silent members, and as long again if names are looked up.
PresenceFound ProbePresence(const std::map<std::string, PresenceProbe>& members, Duration timeout);

}  // namespace mtrun::rendezvous
