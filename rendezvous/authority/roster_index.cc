#include "rendezvous/authority/roster_index.h"

#include <algorithm>

namespace mtrun::rendezvous {
namespace {

void Move(RosterIndex::Ids& ids, const std::string& node_id, bool before, bool after) {
  if (before == after) return;
  if (after) {
    ids.insert(node_id);
  } else {
    ids.erase(node_id);
  }
}

template <typename Key>
void CountDown(std::map<Key, size_t>& counts, const Key& key) {
  const auto count = counts.find(key);
  if (--count->second == 0) counts.erase(count);
}

}  // namespace

void RosterIndex::Change(const std::string& node_id, const NodeFacets& before, const NodeFacets& after) {
  Move(ready_, node_id, before.ready, after.ready);
  Move(starting_, node_id, before.starting, after.starting);
  Move(awaited_, node_id, before.awaited, after.awaited);
  Move(expected_, node_id, before.expected, after.expected);
  if (before.ready != after.ready || before.told != after.told) {
    if (before.ready) {
      const auto group = told_.find(before.told);
      group->second.erase(node_id);
      if (group->second.empty()) told_.erase(group);
    }
    if (after.ready) told_[after.told].insert(node_id);
  }
  if (before.host != after.host) {
    if (!before.host.empty()) CountDown(hosts_, before.host);
    if (!after.host.empty()) ++hosts_[after.host];
  }
  if (before.here != after.here || before.run != after.run) {
    if (before.here) CountDown(runs_, before.run);
    if (after.here) ++runs_[after.run];
  }
  if (before.here && after.here) return ChangeLoss(node_id, before.lost_at, after.lost_at);
  if (before.here) losses_.erase({before.lost_at, node_id});
  if (after.here) losses_.emplace(after.lost_at, node_id);
}

void RosterIndex::ChangeLoss(const std::string& node_id, TimePoint before, TimePoint after) {
  if (before == after) return;
  auto entry = losses_.extract({before, node_id});
  entry.value().first = after;
  losses_.insert(std::move(entry));
}

size_t RosterIndex::CountOf(const std::string& host) const {
  const auto count = hosts_.find(host);
  return count == hosts_.end() ? 0 : count->second;
}

bool RosterIndex::KnowsOther(const JobRun& run) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) { return run.IsOther(entry.first); });
}

}  // namespace mtrun::rendezvous
