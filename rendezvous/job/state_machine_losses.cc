// The losses of a job's nodes: silence, and the answers of hosts and services that were probed.
#include "absl/strings/str_cat.h"
#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {

void JobMachine::OnTick(TimePoint now) {
  // This machine was stopped or overloaded, so messages of its nodes may still be unread.
  if (const auto due = NextDeadline(); due && now - *due > settings_.heartbeat_interval / 5)
    roster_.ExtendLeases(now - *due, now);
  // A node that is cut off while the job ends may come back and learn the outcome.
  const bool lingered = linger_ends_ && now >= *linger_ends_;
  if (outcome_ && !lingered) return;
  for (const Roster::Lost& lost : roster_.Expired(lingered, now)) {
    const bool may_last = !lingered && !failing_;
    if (may_last && suspects_.PutOff(lost.node_id, membership(), MembersNeeded(), &roster_, &effects_, now))
      continue;
    Lose(lost.node_id, lost.why);
  }
}

void JobMachine::OnProbed(const ProbeResult& result, TimePoint now) {
  if (outcome_) {
    for (const std::string& node_id : result.dead) {
      const RosterNode* node = roster_.Find(node_id);
      if (node == nullptr || node->connected || !departures_.Verified(node_id)) continue;
      roster_.Erase(node_id);
      effects_.Close(node_id);
    }
    return;
  }
  for (const PeerService& peer : result.peers) generation_.Saw(peer.last_number);
  if (result.heard) {
    const PeerService& peer = result.peers.front();
    // A service with lower numbers is behind: it was cut off while others continued.
    const bool behind = peer.generation.number < generation_.number();
    const bool holds_the_same =
        peer.generation == generation_.id() && (!HasAuthority() || MostAreSilent() || end_check_.waits());
    if (peer.authority && !behind && (peer.generation > generation_.id() || holds_the_same)) MoveTo(peer);
    return;
  }
  departures_.OnProbed(result.alive);
  OnRefused(result.dead);
  for (const std::string& node_id : departures_.Fallen(generation_, roster_)) {
    if (!result.dead.contains(node_id)) continue;
    departures_.OnDead(node_id);  // recorded before the node is given up
    roster_.Change(node_id, [](RosterNode& node) { node.closed_why = {.how = NodeLost::How::kAgentGone}; });
    if (suspects_.Has(node_id)) Lose(node_id, {.how = NodeLost::How::kAgentGone});
  }
  quorum_.OnProbed(result.peers, run_, now - result.took, now);
  for (const Member* member : quorum_.Unaccounted(membership())) {
    // A refusal proves nothing if no answer ever came through, because it may be a firewall's. But one of
    // several services cannot have asked before it took over.
    const bool proves = quorum_.Applies(generation_) || departures_.Verified(member->node_id);
    if (!proves || !result.dead.contains(member->node_id)) continue;
    departures_.OnDead(member->node_id);
    const NodeLost gone{.how = NodeLost::How::kAgentGone};
    effects_.LogDetail(absl::StrCat(member->host, " is dead: its host answers that there is no such process"),
                       Cause{member->node_id, member->host, gone});
    if (Has(member->node_id)) Lose(member->node_id, gone);  // the adopted generation expected it
  }
  if (result.peers.empty()) return;
  if (const PeerService* there = end_check_.OnProbed(result.peers, generation_.id(), now - result.took))
    return MoveTo(*there);
  for (const PeerService& peer : result.peers) {  // the silent members have gone there
    if (MostAreSilent() && peer.authority && peer.generation == generation_.id()) return MoveTo(peer);
  }
  if (const PeerService* other = quorum_.FindWhereOver(generation_, run_, HasAuthority(), now))
    return MoveTo(*other);
  if (const PeerService* successor = quorum_.FindSuccessor(membership())) MoveTo(*successor);
}

/// Returns whether most members of the running generation are suspects of this service.
bool JobMachine::MostAreSilent() const {
  return generation_.running() && 2 * suspects_.size() > generation_.last()->members.size();
}

/// Returns whether no member can have gone to a service at which the job would begin again. Once a result is safe,
/// every service ends the job.
bool JobMachine::AllAreHere() const {
  return !quorum_.Applies(generation_) || generation_.result_safe() ||
         (roster_.attendance().fallen().empty() && quorum_.Unaccounted(membership()).empty());
}

/// A refusal proves no death if the port has never answered, but then the end of a stream counts as a loss.
void JobMachine::OnRefused(const std::set<std::string>& dead) {
  for (const std::string& node_id : dead) {
    const RosterNode* node = roster_.Find(node_id);
    if (node == nullptr || node->connected || node->expected || departures_.Verified(node_id)) continue;
    roster_.Change(node_id, [](RosterNode& refused) { refused.refused = true; });
    if (suspects_.Has(node_id)) Lose(node_id, NodeLost(node->closed_why));
  }
}

/// Returns how many members of the running generation must be in the next one: most of them if other services
/// could form one too.
size_t JobMachine::MembersNeeded() const {
  return generation_.running() && quorum_.Applies(generation_) ? generation_.last()->members.size() / 2 + 1
                                                               : 1;
}

/// Gives up the silent members whose loss cannot be put off any longer.
void JobMachine::LoseSuspects(TimePoint now) {
  for (;;) {  // the loss of one may decide about the others
    const std::vector<std::string> lost = suspects_.Settle(membership(), MembersNeeded(), now);
    if (lost.empty()) return;
    for (const std::string& node_id : lost) Lose(node_id, roster_.WhyLost(node_id, now));
  }
}

void JobMachine::Lose(const std::string& node_id, const NodeLost& why) {
  const Cause cause = roster_.About(node_id, why);
  store_.DropNode(node_id);
  suspects_.Erase(node_id);
  if (const RosterNode* node = roster_.Find(node_id); node != nullptr && node->greeted)
    departures_.OnLost(node_id, node->heard_at);
  roster_.Erase(node_id);
  control_.OnGone(node_id);
  effects_.Close(node_id);
  if (outcome_) return;
  effects_.LogGone(cause, generation_.FindRunning(node_id) != nullptr);
  backoff_.Clear();  // this may have broken the last generation
  MemberGone(cause);
}

void JobMachine::MemberGone(const Cause& cause) {
  const std::string& node_id = cause.node_id;
  if (generation_.FindRunning(node_id) == nullptr) return;
  if (generation_.HasFinished(node_id)) return;  // its work is done
  if (!generation_.result_safe()) return Dissolve(cause);
  generation_.Finish(node_id);
}

}  // namespace mtrun::rendezvous
