#include "web/connection_slots.h"

#include "base/status_macros.h"

namespace mtrun::web {

ConnectionSlots::Admission ConnectionSlots::Admit(int64_t id, const std::string& peer) {
  MT_CHECK(taken_.empty() || taken_.rbegin()->first < id) << id;
  Admission admission;
  if (taken_.size() >= most_) {
    admission.evicted = Longest(Waits::kRequest);
    if (!admission.evicted) admission.evicted = Longest(Waits::kReader);
    if (!admission.evicted) return {.admitted = false, .evicted = {}};
    taken_.erase(*admission.evicted);
  }
  taken_[id] = {peer, Waits::kRequest};
  return admission;
}

void ConnectionSlots::Change(int64_t id, Waits waits) {
  const auto found = taken_.find(id);
  if (found != taken_.end()) found->second.waits = waits;
}

std::optional<int64_t> ConnectionSlots::Longest(Waits waits) const {
  std::map<std::string, size_t> count;
  for (const auto& [id, slot] : taken_) count[slot.peer] += slot.waits == waits;
  std::optional<int64_t> longest;
  size_t most = 0;
  for (const auto& [id, slot] : taken_) {
    if (slot.waits != waits || count[slot.peer] <= most) continue;
    longest = id;
    most = count[slot.peer];
  }
  return longest;
}

}  // namespace mtrun::web
