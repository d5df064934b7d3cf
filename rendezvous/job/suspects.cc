#include "rendezvous/job/suspects.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

/// If no lease ends, the decision is made again after this time.
constexpr Duration kUnlimited = std::chrono::hours(1);

/// True if the end of the node's stream proves nothing: its host can say whether a process is left, and has
/// not said that none is.
bool MayBeCut(const RosterNode& node, const Member& member) {
  if (node.connected || node.expected) return true;
  return member.presence_port > 0 && !node.refused && node.closed_why.how != NodeLost::How::kAgentGone;
}

}  // namespace

Suspects::Ground Suspects::GroundOf(const MembershipView& view, size_t quorum) const {
  Ground ground{view.generation.id(), view.generation.running(), view.roster.attendance().ordinary(),
                view.generation.result_safe()};
  if (!ground.running) return ground;
  const size_t members = view.generation.last()->members.size();
  const size_t away = view.roster.attendance().absent().size() + here_;
  const size_t others = members - std::min(away, members);
  const size_t spares = view.roster.index().ready().size();
  // If no other member is left, nothing can follow this generation before the lease of a silent one is over.
  ground.can_continue = others >= std::max<size_t>(quorum, 1) && others + spares >= min_nodes_;
  return ground;
}

std::optional<TimePoint> Suspects::Until(const std::string& node_id, const MembershipView& view,
                                         const Ground& ground, TimePoint now) const {
  const RosterNode* node = view.roster.Find(node_id);
  const Member* member = view.generation.FindLast(node_id);
  if (node == nullptr || member == nullptr || !ground.ordinary || view.departures.Gone(node_id))
    return std::nullopt;
  const TimePoint silent_ends = node->heard_at + lost_after_;
  // The generation is over, so there is nothing to save; the node may still be stopping its workers.
  if (!ground.running) return node->connected ? std::optional(silent_ends) : std::nullopt;
  if (ground.result_safe || view.generation.HasFinished(node_id) || !MayBeCut(*node, *member))
    return std::nullopt;
  // Without leases the job waits for as long as it may wait for nodes.
  const TimePoint wait_ends = min_nodes_timeout_ > Duration::zero()
                                  ? node->heard_at + std::max(lost_after_, min_nodes_timeout_)
                                  : std::max(silent_ends, now) + kUnlimited;
  // A member that a new service expects may have a lease that the one before has just extended, so the time
  // since this service has learned of the generation counts.
  const TimePoint lease_ends = view.departures.LeaseEndAfter(node->heard_at).value_or(wait_ends);
  return ground.can_continue ? std::min(silent_ends, lease_ends) : lease_ends;
}

bool Suspects::PutOff(const std::string& node_id, const MembershipView& view, size_t quorum, Roster* roster,
                      EffectList* effects, TimePoint now) {
  const RosterNode* node = roster->Find(node_id);
  const auto [entry, fresh] = silent_.try_emplace(node_id);
  Silent& silent = entry->second;
  Count(silent, -1);
  silent = {node->heard_at, node->greeted, node->greeted && !node->connected, silent.told};
  Count(silent, 1);
  const auto until = Until(node_id, view, GroundOf(view, quorum), now);
  if (!until || now >= *until) {
    Erase(node_id);
    return false;
  }
  const TimePoint silent_ends = node->heard_at + lost_after_;
  // The log says so when the time has come that a node has which the job can do without.
  const TimePoint next = now < silent_ends ? std::min(*until, silent_ends) : *until;
  roster->PutOffLoss(node_id, next);
  if (now >= silent_ends) Tell(node_id, &silent, *until, view, effects, now);
  return true;
}

void Suspects::Tell(const std::string& node_id, Silent* silent, TimePoint until, const MembershipView& view,
                    EffectList* effects, TimePoint now) const {
  if (std::exchange(silent->told, true) || !view.generation.running()) return;
  const bool ends = until - now < kUnlimited;
  const char* key = leases_end_ ? "fence_timeout" : "min_nodes_timeout";
  effects->Log(absl::StrCat(
      view.roster.Name(node_id), " is suspected to be gone: no heartbeat for ",
      HumanDuration(now - silent->since), " (--rdzv_conf keep_alive_interval); generation ",
      view.generation.id().number,
      " continues, because the job needs this node: waiting until it comes back, is found dead, ",
      ends ? absl::StrCat("a worker fails, or ", HumanDuration(until - now), " have passed (", key, ")")
           : "or a worker fails",
      "; ", Departures::kAdvice));
}

std::vector<std::string> Suspects::Settle(const MembershipView& view, size_t quorum, TimePoint now) {
  std::vector<std::string> lost;
  const Ground ground = GroundOf(view, quorum);
  if (silent_.empty() || ground == settled_) return lost;
  settled_ = ground;
  for (const auto& [node_id, silent] : silent_) {
    const auto until = Until(node_id, view, ground, now);
    if (!until || now >= *until) lost.push_back(node_id);
  }
  return lost;
}

void Suspects::OnHeard(const std::string& node_id, const MembershipView& view, EffectList* effects,
                       TimePoint now) {
  const auto silent = silent_.find(node_id);
  if (silent == silent_.end()) return;
  const RosterNode* node = view.roster.Find(node_id);
  if (node != nullptr && (!node->connected || node->heard_at <= silent->second.since)) return;
  const TimePoint since = silent->second.since;
  Erase(node_id);
  if (node == nullptr || view.generation.FindRunning(node_id) == nullptr) return;
  effects->Log(absl::StrCat(view.roster.Name(node_id), " is back after ", HumanDuration(now - since),
                            " of silence; generation ", view.generation.id().number, " continues"));
}

void Suspects::Erase(const std::string& node_id) {
  const auto silent = silent_.find(node_id);
  if (silent == silent_.end()) return;
  Count(silent->second, -1);
  silent_.erase(silent);
}

void Suspects::Clear() {
  silent_.clear();
  here_ = fallen_ = 0;
}

/// Adds the node to the numbers of its kinds, or takes it out of them.
void Suspects::Count(const Silent& silent, int sign) {
  here_ += silent.here ? static_cast<size_t>(sign) : 0;
  fallen_ += silent.fallen ? static_cast<size_t>(sign) : 0;
}

std::string Suspects::Describe() const {
  std::vector<std::string> names;
  for (const auto& [node_id, silent] : silent_)
    names.push_back(absl::StrCat(node_id, silent.told ? " suspected" : " silent"));
  return absl::StrJoin(names, ", ");
}

}  // namespace mtrun::rendezvous
