#include "web/connection_slots.h"

#include "base/status_macros.h"

namespace mtrun::web {

ConnectionSlots::Admission ConnectionSlots::Admit(int64_t id, const std::string& peer) {
  MT_CHECK(taken_.empty() || taken_.rbegin()->first < id) << id;
  Admission admission;
  if (taken_.size() >= most_) {
    for (const bool authenticated : {false, true}) {
      for (const Waits waits : {Waits::kRequest, Waits::kReader})
        if (!admission.evicted) admission.evicted = Longest(waits, authenticated);
    }
    if (!admission.evicted) return {.admitted = false, .evicted = {}};
    taken_.erase(*admission.evicted);
  }
  taken_[id] = {peer};
  return admission;
}

void ConnectionSlots::Change(int64_t id, Waits waits) {
  const auto found = taken_.find(id);
  if (found != taken_.end()) found->second.waits = waits;
}

void ConnectionSlots::SetAuthenticated(int64_t id) {
  const auto found = taken_.find(id);
  if (found != taken_.end()) found->second.authenticated = true;
}

std::optional<int64_t> ConnectionSlots::Longest(Waits waits, bool authenticated) const {
  const auto matches = [&](const Slot& slot) {
    return slot.waits == waits && slot.authenticated == authenticated;
  };
  std::map<std::string, size_t> count;
  for (const auto& [id, slot] : taken_) count[slot.peer] += matches(slot);
  std::optional<int64_t> longest;
  size_t most = 0;
  for (const auto& [id, slot] : taken_) {
    if (!matches(slot) || count[slot.peer] <= most) continue;
    longest = id;
    most = count[slot.peer];
  }
  return longest;
}

}  // namespace mtrun::web
