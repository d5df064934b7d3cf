// What one service of several concludes from what the others answer: whether it may begin, and which of them
// has the job instead.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "rendezvous/takeover_quorum.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

bool Answers(const PeerService& peer) {
  return peer.state == State::kWithoutJob || peer.state == State::kWithJob;
}

/// Where this one stands by: the endpoint's service has heard that the job has gone on elsewhere, from
/// `number` on, and knows those that have it or will hear from them.
bool KnowsOf(uint64_t number, const PeerService& peer, const std::string& endpoint) {
  return peer.state == State::kWithoutJob && peer.endpoint == endpoint && peer.last_number >= number;
}

bool HasRunIt(const PeerService& peer) { return peer.state == State::kWithJob && peer.generation.number > 0; }

/// Another service's state differs from the one seen before, or it is gone at first sight.
bool HasChanged(const std::vector<PeerService>& before, const std::vector<PeerService>& after) {
  return std::any_of(after.begin(), after.end(), [&](const PeerService& peer) {
    const auto last = std::find_if(before.begin(), before.end(),
                                   [&](const PeerService& b) { return b.endpoint == peer.endpoint; });
    return last == before.end() ? peer.state == State::kGone : peer.state != last->state;
  });
}

/// Whether an endpoint's host is that of a member: its address, or its name with or without the domain.
bool IsHostOf(const std::string& host, const Member& member) {
  const auto shortened = [](const std::string& name, const std::string& full) {
    return !name.empty() && !IsIpAddress(full) && absl::StartsWith(full, absl::StrCat(name, "."));
  };
  return host == member.address || host == member.host || shortened(host, member.host) ||
         shortened(member.host, host);
}

/// Whatever this service has decided of its last generation.
bool IsCertain(const EndedRun& end, const GenerationRecord& generation) {
  const uint64_t last = generation.id().number;
  return end.last_number > last || (end.success && end.last_number == last);
}

/// The service of a node that never comes back does not either.
bool IsEvicted(const PeerService& peer, const GenerationRecord& generation, const Departures& departures) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(peer.endpoint);
  const std::vector<Member>& members = generation.last()->members;
  return endpoint.ok() && std::any_of(members.begin(), members.end(), [&](const Member& m) {
           return departures.Evicted(m.node_id) && IsHostOf(endpoint->host, m);
         });
}

}  // namespace

void TakeoverQuorum::OnProbed(std::vector<PeerService> peers, const JobRun& run, TimePoint seen,
                              TimePoint now) {
  const std::vector<PeerService> before = std::exchange(peers_, std::move(peers));
  seen_at_ = seen;
  for (PeerService& peer : peers_) {
    if (peer.state != State::kWithJob || !run.IsOther(peer.incarnation) || peer.proof >= run.Proof(now))
      continue;
    PeerService without;
    without.endpoint = peer.endpoint;
    without.state = State::kWithoutJob;
    without.ended = peer.ended;
    peer = std::move(without);
  }
  if (HasChanged(before, peers_)) changed_at_ = now;
}

std::optional<std::string> TakeoverQuorum::WhyNotBegin() const {
  bool first = true;  // of those that may be there
  for (const PeerService& peer : peers_) {
    if (peer.state == State::kGone) continue;
    const bool before_it = std::exchange(first, false) && peer.state != State::kSelf;
    if (before_it) return absl::StrCat("the job begins at ", peer.endpoint, ", the first of the list");
    if (HasRunIt(peer)) return absl::StrCat("the job is at ", peer.endpoint);
    if (peer.state == State::kSilent) {
      return absl::StrCat("the service at ", peer.endpoint,
                          " does not answer and may have the job; waiting for it (--rdzv_conf takeover=any "
                          "continues without)");
    }
  }
  if (peers_.empty()) return kProbing;
  return std::nullopt;
}

/// No member is left that could decide it: two services that do not see each other, each with newcomers, must
/// not both begin.
std::optional<std::string> TakeoverQuorum::WhyNotBeginAgain(const GenerationRecord& generation,
                                                            const Departures& departures) const {
  const Generation last = generation.id();
  if (peers_.empty()) return kProbing;
  bool behind_self = false;
  for (const PeerService& peer : peers_) {
    behind_self = behind_self || peer.state == State::kSelf;
    if (peer.state == State::kSilent && !IsEvicted(peer, generation, departures)) {
      return absl::StrCat("no node of generation ", last.number, " is left, and the service at ",
                          peer.endpoint,
                          " does not answer and may have the job; waiting for it (--rdzv_conf takeover=any "
                          "continues without)");
    }
    if (Answers(peer) && (!behind_self || peer.generation > last))
      return absl::StrCat("no node of generation ", last.number, " is left: the job goes on at ",
                          peer.endpoint);
  }
  return std::nullopt;
}

const PeerService* TakeoverQuorum::FindSuccessor(const GenerationRecord& generation, const Roster& roster,
                                                 const Departures& departures) const {
  const bool known = generation.known();
  const Generation current = generation.id();
  if (known && role_.standby) {
    // One that starts afresh at the endpoint has read what a host that has gone on wrote down.
    const bool gone_on = HostMayHaveGoneOn(generation, roster, departures);
    // One that holds goes there too: who has authority may be none of the services that it knows.
    const uint64_t behind = current.number + (Allows(generation, roster, departures) ? 1 : 0);
    const auto meeting = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
      return KnowsOf(behind, peer, role_.endpoint) ||
             (gone_on && peer.endpoint == role_.endpoint && Answers(peer));
    });
    if (meeting != peers_.end()) return &*meeting;
  }
  if (Allows(generation, roster, departures)) {
    // There was a time when this service could not know of the newer generation. The other members of the
    // older one may all be dead, and so give it authority, while others run the newer one.
    const auto newer = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
      return known && HasRunIt(peer) && peer.generation > current;
    });
    return newer == peers_.end() ? nullptr : &*newer;
  }
  const bool begins = !known || departures.AreGone(generation.last()->members);
  bool behind_self = false;
  for (const PeerService& peer : peers_) {
    behind_self = behind_self || peer.state == State::kSelf;
    if (!known && HasRunIt(peer)) return &peer;
    if (begins && !behind_self && Answers(peer)) return &peer;
    if (!known || peer.state != State::kWithJob) continue;
    const bool newer = peer.generation > current;
    const bool same = peer.generation == current && (peer.authority || !behind_self);
    if (newer || same) return &peer;
  }
  return nullptr;
}

const PeerService* TakeoverQuorum::FindWhereOver(const GenerationRecord& generation, const JobRun& run,
                                                 bool authority, TimePoint now) const {
  if (!generation.known()) return nullptr;
  const auto over = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
    const EndedRun* end = peer.FindEnd(run);
    const bool ended = end != nullptr && (!authority || IsCertain(*end, generation));
    const bool replaced =
        peer.state == State::kWithJob && run.IsOther(peer.incarnation) && peer.proof > run.Proof(now);
    return ended || replaced;
  });
  return over == peers_.end() ? nullptr : &*over;
}

}  // namespace mtrun::rendezvous
