// One service of several (docs/protocol.md): when it may change the membership, and when the job is
// elsewhere.
//
// At most one service can, since each node is registered with one service at a time: it needs more than half
// of those members of the last generation that may still be alive, which are all but those that said goodbye
// and those whose host answers that their agent is gone. Before the first generation it is the first service
// of the list, once every other one has answered that it does not have the job (or is gone).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

bool HasRunIt(const PeerService& peer) { return peer.state == State::kWithJob && peer.generation.number > 0; }

std::string HostPort(const Member& member) {
  const bool v6 = member.address.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", member.address, "]:", member.presence_port)
            : absl::StrCat(member.address, ":", member.presence_port);
}

}  // namespace

std::vector<const Member*> JobMachine::Unaccounted() const {
  std::vector<const Member*> members;
  if (!current_) return members;
  for (const Member& member : current_->members) {
    const auto node = nodes_.find(member.node_id);
    const bool registered = node != nodes_.end() && node->second.greeted;
    if (!registered && !left_.contains(member.node_id) && !dead_.contains(member.node_id))
      members.push_back(&member);
  }
  return members;
}

bool JobMachine::MayRegroup(std::string* why_not) const {
  const auto no = [&](std::string why) {
    if (why_not != nullptr) *why_not = std::move(why);
    return false;
  };
  if (!Listed() || settings_.takeover_any) return true;
  if (!current_) {
    for (const PeerService& peer : peers_) {
      const bool before_it = &peer == peers_.data() && peer.state != State::kSelf;
      if (before_it) return no(absl::StrCat("the job begins at ", peer.endpoint, ", the first of the list"));
      if (HasRunIt(peer)) return no(absl::StrCat("the job is at ", peer.endpoint));
      if (peer.state == State::kSilent) {
        return no(
            absl::StrCat("the service at ", peer.endpoint,
                         " does not answer and may have the job; waiting for it (--rdzv_conf takeover=any "
                         "goes on without)"));
      }
    }
    return !peers_.empty() || no("looking at the other services of the list");
  }
  const auto is_dead_or_gone = [&](const Member& m) {
    return left_.contains(m.node_id) || dead_.contains(m.node_id);
  };
  const auto gone =
      static_cast<size_t>(std::count_if(current_->members.begin(), current_->members.end(), is_dead_or_gone));
  const size_t maybe_alive = current_->members.size() - gone;
  const std::vector<const Member*> missing = Unaccounted();
  if (2 * (maybe_alive - missing.size()) > maybe_alive || maybe_alive == 0) return true;
  std::vector<std::string> names;
  for (const Member* member : missing) names.push_back(member->host);
  return no(absl::StrCat("holding: of generation ", current().number, " ", absl::StrJoin(names, ", "),
                         missing.size() == 1 ? " is" : " are",
                         " not here and may go on elsewhere (--rdzv_conf takeover=any goes on without)"));
}

bool JobMachine::Gone() const {
  if (!nodes_.empty()) return false;
  return phase_ == Phase::kEnded || !current_ || moved_ || MayRegroup(nullptr);
}

std::optional<LookWanted> JobMachine::WantsLook() const {
  if (phase_ == Phase::kEnded || !Listed() || Gone()) return std::nullopt;
  LookWanted wanted;
  wanted.job_id = settings_.job_id;
  wanted.endpoints = settings_.endpoints;
  for (const Member* member : Unaccounted()) {
    if (member->presence_port > 0) wanted.members[member->node_id] = HostPort(*member);
  }
  return wanted;
}

void JobMachine::On(const std::string&, const LookedAround& looked, TimePoint) {
  if (phase_ == Phase::kEnded || !Listed()) return;
  peers_ = looked.peers;
  for (const Member* member : Unaccounted()) {
    if (!looked.dead.contains(member->node_id)) continue;
    const std::string node_id = member->node_id;
    dead_.insert(node_id);
    Log(absl::StrCat(member->host, " is gone for certain: its host answers that there is no such process"));
    if (nodes_.contains(node_id)) Lose(node_id, "its agent is gone");  // the adopted generation expected it
  }
  if (phase_ == Phase::kEnded) return;
  if (MayRegroup(nullptr)) {
    // Two authorities: there was a time when one of them could not know of the other. The newer one stays.
    for (const PeerService& peer : peers_) {
      if (current_ && HasRunIt(peer) && peer.authority && peer.generation > current())
        return SendElsewhere(peer);
    }
    return;
  }
  bool behind_self = false;
  for (const PeerService& peer : peers_) {
    behind_self = behind_self || peer.state == State::kSelf;
    if (!current_ && HasRunIt(peer)) return SendElsewhere(peer);
    const bool answers = peer.state == State::kWithoutJob || peer.state == State::kWithJob;
    if (!current_ && !behind_self && answers) return SendElsewhere(peer);
    if (!current_ || peer.state != State::kWithJob) continue;
    const bool newer = peer.generation > current();
    const bool same = peer.generation == current() && (peer.authority || !behind_self);
    if (newer || same) return SendElsewhere(peer);
  }
}

/// Its agents move over with what they hold; this service forgets the job.
void JobMachine::SendElsewhere(const PeerService& peer) {
  const std::string reason = peer.generation.number == 0
                                 ? std::string("it comes first in the list")
                                 : absl::StrCat("it has ", rendezvous::Describe(peer.generation));
  Log(absl::StrCat("the job is at ", peer.endpoint, ": ", reason));
  moved_ = true;
  if (phase_ == Phase::kRunning) {
    // Without a word to the agents: there the generation may go on.
    phase_ = Phase::kForming;
    finished_.clear();
    Answer(store_.Close("the service has moved"));
  }
  for (const auto& [node_id, node] : std::exchange(nodes_, {})) {
    SendTo(node_id, Elsewhere{peer.endpoint, reason});
    effects_.push_back(CloseSession{node_id});
  }
}

}  // namespace mtrun::rendezvous
