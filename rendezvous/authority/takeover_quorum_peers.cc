// Conclusions of one of several services from the answers of the others: whether it may begin, and which of
// them has the job instead.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "rendezvous/authority/takeover_quorum.h"

namespace mtrun::rendezvous {
namespace {

using Ground = FormationRight::Ground;
using State = PeerService::State;

bool Answers(const PeerService& peer) {
  return peer.state == State::kWithoutJob || peer.state == State::kWithJob;
}

/// For a standby service: true if the service at the endpoint has learned that the job continued elsewhere
/// from `number` on. It knows the services that have the job, or will be told by them.
bool KnowsOf(uint64_t number, const PeerService& peer, const std::string& endpoint) {
  return peer.state == State::kWithoutJob && peer.endpoint == endpoint && peer.last_number >= number;
}

bool HasRunIt(const PeerService& peer) { return peer.state == State::kWithJob && peer.generation.number > 0; }

/// True if the state of another service differs from the one seen before, or it is gone when first seen.
bool HasChanged(const std::vector<PeerService>& before, const std::vector<PeerService>& after) {
  return std::any_of(after.begin(), after.end(), [&](const PeerService& peer) {
    const auto last = std::find_if(before.begin(), before.end(),
                                   [&](const PeerService& b) { return b.endpoint == peer.endpoint; });
    return last == before.end() ? peer.state == State::kGone : peer.state != last->state;
  });
}

/// True if the endpoint's host is that of the member: its address, or its name with or without the domain.
bool IsHostOf(const std::string& host, const Member& member) {
  const auto shortened = [](const std::string& name, const std::string& full) {
    return !name.empty() && !IsIpAddress(full) && absl::StartsWith(full, absl::StrCat(name, "."));
  };
  return host == member.address || host == member.host || shortened(host, member.host) ||
         shortened(member.host, host);
}

/// True if the end counts whatever this service has decided about its last generation.
bool IsCertain(const EndedRun& end, const GenerationRecord& generation) {
  const uint64_t last = generation.id().number;
  return end.last_number > last || (end.success && end.last_number == last);
}

/// True if the service belongs to an evicted node: like the node, it never comes back.
bool IsEvicted(const PeerService& peer, const MembershipView& view) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(peer.endpoint);
  const std::vector<Member>& members = view.generation.last()->members;
  return endpoint.ok() && std::any_of(members.begin(), members.end(), [&](const Member& m) {
           return view.departures.Evicted(m.node_id) && IsHostOf(endpoint->host, m);
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
    peer = {.endpoint = peer.endpoint, .state = State::kWithoutJob, .ended = peer.ended};
  }
  if (HasChanged(before, peers_)) changed_at_ = now;
}

FormationRight TakeoverQuorum::RightToBegin() const {
  bool first = true;  // no service before it can be up
  for (const PeerService& peer : peers_) {
    if (peer.state == State::kGone) continue;
    const bool before_it = std::exchange(first, false) && peer.state != State::kSelf;
    if (before_it) return {Ground::kPreceded, peer.endpoint};
    if (HasRunIt(peer)) return {Ground::kJobElsewhere, peer.endpoint};
    if (peer.state == State::kSilent) return {Ground::kServiceSilent, peer.endpoint};
  }
  return {peers_.empty() ? Ground::kNotProbed : Ground::kFirstService};
}

FormationRight TakeoverQuorum::RightToBeginAgain(const MembershipView& view) const {
  bool behind_self = false;
  for (const PeerService& peer : peers_) {
    behind_self = behind_self || peer.state == State::kSelf;
    if (peer.state == State::kSilent && !IsEvicted(peer, view))
      return {Ground::kServiceSilent, peer.endpoint};
    if (Answers(peer) && (!behind_self || peer.generation > view.generation.id()))
      return {Ground::kContinuesElsewhere, peer.endpoint};
    if (Answers(peer) && IsUnheardSpare(peer.endpoint, view))
      return {Ground::kSpareMayHaveContinued, peer.endpoint};
  }
  return {peers_.empty() ? Ground::kNotProbed : Ground::kFirstService};
}

bool TakeoverQuorum::IsUnheardSpare(const std::string& endpoint, const MembershipView& view) const {
  return std::any_of(spares_.begin(), spares_.end(), [&](const auto& spare) {
    if (spare.second != endpoint || view.departures.Gone(spare.first)) return false;
    const RosterNode* node = view.roster.Find(spare.first);
    return node == nullptr || !node->greeted;
  });
}

const PeerService* TakeoverQuorum::FindSuccessor(const MembershipView& view) const {
  const bool known = view.generation.known(), authority = Authority(view).granted();
  const Generation current = view.generation.id();
  if (known && role_.standby) {
    // A service that starts afresh at the endpoint has read the state file of a host that continued.
    const bool gone_on = HostMayHaveContinued(view);
    // A service that holds redirects its nodes there too: it may not know the service that has authority.
    const uint64_t behind = current.number + (authority ? 1 : 0);
    const auto meeting = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
      return KnowsOf(behind, peer, role_.endpoint) ||
             (gone_on && peer.endpoint == role_.endpoint && Answers(peer));
    });
    if (meeting != peers_.end()) return &*meeting;
  }
  if (authority) {
    // For a time this service may have been unable to learn of the newer generation. The other members of the
    // older one may all be dead, which gives it authority while others run the newer one.
    const auto newer = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
      return known && HasRunIt(peer) && peer.generation > current;
    });
    return newer == peers_.end() ? nullptr : &*newer;
  }
  const bool begins = !known || view.NoneLeft();
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
