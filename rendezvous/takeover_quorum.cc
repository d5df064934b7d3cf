#include "rendezvous/takeover_quorum.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

bool Answers(const PeerService& peer) {
  return peer.state == State::kWithoutJob || peer.state == State::kWithJob;
}

bool HasRunIt(const PeerService& peer) { return peer.state == State::kWithJob && peer.generation.number > 0; }

bool NobodyLeft(const GenerationRecord& generation, const Departures& departures) {
  const std::vector<Member>& members = generation.last()->members;
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& m) { return departures.Gone(m.node_id); });
}

std::string StateName(State state) {
  switch (state) {
    case State::kSilent:
      return "silent";
    case State::kGone:
      return "gone";
    case State::kSelf:
      return "self";
    case State::kWithoutJob:
      return "without the job";
    case State::kWithJob:
      return "with the job";
  }
  return "";
}

}  // namespace

std::vector<const Member*> TakeoverQuorum::Unaccounted(const GenerationRecord& generation,
                                                       const Roster& roster,
                                                       const Departures& departures) const {
  std::vector<const Member*> members;
  if (!generation.known()) return members;
  for (const Member& member : generation.last()->members) {
    const RosterNode* node = roster.Find(member.node_id);
    const bool registered = node != nullptr && node->greeted;
    if (!registered && !departures.Gone(member.node_id)) members.push_back(&member);
  }
  return members;
}

std::optional<std::string> TakeoverQuorum::WhyNotBegin() const {
  for (const PeerService& peer : peers_) {
    const bool before_it = &peer == peers_.data() && peer.state != State::kSelf;
    if (before_it) return absl::StrCat("the job begins at ", peer.endpoint, ", the first of the list");
    if (HasRunIt(peer)) return absl::StrCat("the job is at ", peer.endpoint);
    if (peer.state == State::kSilent) {
      return absl::StrCat("the service at ", peer.endpoint,
                          " does not answer and may have the job; waiting for it (--rdzv_conf takeover=any "
                          "continues without)");
    }
  }
  if (peers_.empty()) return "probing the other services of the list";
  return std::nullopt;
}

/// No member is left that could decide it: two services that do not see each other, each with newcomers, must
/// not both begin.
std::optional<std::string> TakeoverQuorum::WhyNotBeginAgain(const Generation& last) const {
  if (peers_.empty()) return "probing the other services of the list";
  bool behind_self = false;
  for (const PeerService& peer : peers_) {
    behind_self = behind_self || peer.state == State::kSelf;
    if (peer.state == State::kSilent) {
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

std::optional<std::string> TakeoverQuorum::WhyNot(const GenerationRecord& generation, const Roster& roster,
                                                  const Departures& departures) const {
  if (!listed_ || takeover_any_) return std::nullopt;
  if (!generation.known()) return WhyNotBegin();
  const auto& members = generation.last()->members;
  const auto gone = static_cast<size_t>(std::count_if(
      members.begin(), members.end(), [&](const Member& m) { return departures.Gone(m.node_id); }));
  const size_t maybe_alive = members.size() - gone;
  if (maybe_alive == 0) return WhyNotBeginAgain(generation.id());
  const std::vector<const Member*> missing = Unaccounted(generation, roster, departures);
  if (2 * (maybe_alive - missing.size()) > maybe_alive) return std::nullopt;
  std::vector<std::string> names;
  for (const Member* member : missing) names.push_back(member->host);
  return absl::StrCat("holding: of generation ", generation.id().number, " ", absl::StrJoin(names, ", "),
                      missing.size() == 1 ? " is" : " are",
                      " not here and may still run elsewhere (--rdzv_conf takeover=any continues without)");
}

const PeerService* TakeoverQuorum::FindSuccessor(const GenerationRecord& generation, const Roster& roster,
                                                 const Departures& departures) const {
  const bool known = generation.known();
  const Generation current = generation.id();
  if (!WhyNot(generation, roster, departures)) {
    // Two authorities: there was a time when one of them could not know of the other. The newer one stays.
    const auto newer = std::find_if(peers_.begin(), peers_.end(), [&](const PeerService& peer) {
      return known && HasRunIt(peer) && peer.authority && peer.generation > current;
    });
    return newer == peers_.end() ? nullptr : &*newer;
  }
  const bool begins = !known || NobodyLeft(generation, departures);
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

std::map<std::string, PresenceProbe> TakeoverQuorum::Missing(const GenerationRecord& generation,
                                                             const Roster& roster,
                                                             const Departures& departures) const {
  std::map<std::string, PresenceProbe> members;
  for (const Member* member : Unaccounted(generation, roster, departures)) {
    if (member->presence_port > 0)
      members[member->node_id] = {ToText(Endpoint{member->address, member->presence_port}),
                                  member->presence_id};
  }
  return members;
}

std::string TakeoverQuorum::Describe() const {
  if (!listed_) return "the only service";
  std::vector<std::string> peers;
  for (const PeerService& peer : peers_) {
    peers.push_back(absl::StrCat(peer.endpoint, " ", StateName(peer.state),
                                 peer.generation.number > 0 ? absl::StrCat(" ", peer.generation.number) : "",
                                 peer.authority ? " authority" : ""));
  }
  return absl::StrCat(takeover_any_ ? "takeover by any" : "takeover by majority", ", services {",
                      absl::StrJoin(peers, ", "), "}", moved_ ? ", moved" : "");
}

}  // namespace mtrun::rendezvous
