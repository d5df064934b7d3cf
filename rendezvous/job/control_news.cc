#include "rendezvous/job/control_news.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {

JobOutcome StoppedOutcome(const ControlCall& call) {
  return {false, 128 + SIGTERM, absl::StrCat("stopped by ", Describe(call.by)), std::nullopt,
          /*stopped=*/true};
}

void ControlNews::Tell(const ControlCall& call, const std::string& leaves, const std::string& except,
                       const Roster& roster, EffectList* effects) {
  const bool all = call.saves();
  if (all) all_leave_ = call, told_.clear();
  for (const auto& [node_id, node] : roster.nodes()) {
    if (node.expected || node_id == except) continue;
    ControlCall news = call;
    if (auto* drain = std::get_if<DrainCall>(&news.what)) drain->leave = node_id == leaves;
    if (all) told_.insert(node_id);
    effects->Send(node_id, news);
  }
}

ControlCall ControlNews::NewsOf(const Evicted& evicted, TimePoint now) {
  return {EvictCall{evicted.node, now - evicted.at}, evicted.by};
}

void ControlNews::OnEvicted(const std::string& node_id, const ControlCall& call, TimePoint now) {
  const auto* evict = std::get_if<EvictCall>(&call.what);
  evicted_.insert_or_assign(node_id, Evicted{evict != nullptr ? evict->node : node_id, call.by, now});
  if (evicted_.size() <= kMaxEvicted) return;
  evicted_.erase(std::min_element(evicted_.begin(), evicted_.end(),
                                  [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
}

void ControlNews::OnGone(const std::string& node_id) {
  told_.erase(node_id);
  if (const auto evicted = evicted_.find(node_id); evicted != evicted_.end()) evicted->second.told = false;
}

Cause ControlNews::WhyOver(const std::string& node_id, const Generation& held, TimePoint now) const {
  const auto evicted = evicted_.find(node_id);
  if (evicted == evicted_.end()) return {"", "", GenerationOver{held}};
  const auto& [name, by, at, told] = evicted->second;
  return {node_id, name, NodeEvicted{by, now - at}};
}

void ControlNews::OnOpened(const std::string& node_id, TimePoint now, EffectList* effects) {
  const auto evicted = evicted_.find(node_id);
  if (evicted != evicted_.end() && !std::exchange(evicted->second.told, true))
    effects->Send(node_id, NewsOf(evicted->second, now));
  if (all_leave_ && told_.insert(node_id).second) effects->Send(node_id, *all_leave_);
}

std::optional<JobOutcome> ControlNews::OutcomeOfLast(const Cause& what, bool lost) const {
  if (all_leave_) return StoppedOutcome(*all_leave_);
  if (lost) return std::nullopt;
  return FailedOutcome(absl::StrCat("every node has left, the last one: ", rendezvous::Describe(what)));
}

std::string ControlNews::Describe() const {
  std::vector<std::string> parts;
  if (all_leave_) parts.push_back(absl::StrCat("all are to leave; told: ", absl::StrJoin(told_, ", ")));
  for (const auto& [node_id, evicted] : evicted_) parts.push_back(absl::StrCat(evicted.node, " is evicted"));
  return absl::StrJoin(parts, "; ");
}

}  // namespace mtrun::rendezvous
