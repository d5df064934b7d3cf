#include "rendezvous/takeover_quorum.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

bool Answers(const PeerService& peer) {
  return peer.state == State::kWithoutJob || peer.state == State::kWithJob;
}

constexpr char kStandsBy[] = "this service takes a job over from a host that is dead, and knows of none";

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

bool NobodyLeft(const GenerationRecord& generation, const Departures& departures) {
  const std::vector<Member>& members = generation.last()->members;
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& m) { return departures.Gone(m.node_id); });
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

TakeoverQuorum::TakeoverQuorum(const JobSettings& settings, Role role)
    : listed_endpoints_(settings.endpoints),
      listed_(settings.endpoints.size() > 1),
      takeover_any_(settings.takeover_any),
      takeover_majority_(settings.takeover_majority),
      role_(std::move(role)) {}

bool TakeoverQuorum::Applies(const GenerationRecord& generation) const {
  if (listed_ || !generation.known()) return listed_;
  return generation.has_services() && (takeover_majority_ || (role_.embedded && !formed_here_));
}

std::vector<std::string> TakeoverQuorum::Endpoints(const GenerationRecord& generation) const {
  if (listed_) return listed_endpoints_;
  std::vector<std::string> endpoints;
  if (!Applies(generation) && !role_.standby) return endpoints;
  if (!role_.endpoint.empty()) endpoints.push_back(role_.endpoint);
  // Whoever keeps the job looks only for one that starts afresh at the endpoint.
  if (Applies(generation)) AppendServices(*generation.last(), &endpoints);
  return endpoints;
}

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

bool TakeoverQuorum::DecidedByServices(const GenerationRecord& generation,
                                       const Departures& departures) const {
  return Applies(generation) && !takeover_any_ && (!generation.known() || NobodyLeft(generation, departures));
}

bool TakeoverQuorum::NothingLeft(const GenerationRecord& generation, const Departures& departures,
                                 TimePoint now) const {
  if (!generation.known() || !NobodyLeft(generation, departures)) return false;
  return !Applies(generation) || (!takeover_any_ && !Stale(now));
}

void TakeoverQuorum::OnFollowed(const GenerationRecord& generation, const Departures& departures) {
  if (DecidedByMembers(generation, departures))
    return predecessors_.OnFollowed(*generation.last(), departures);
  predecessors_.Clear();
}

std::vector<const Member*> TakeoverQuorum::Unaccounted(const GenerationRecord& generation,
                                                       const Roster& roster,
                                                       const Departures& departures) const {
  std::vector<const Member*> members = Absent(generation, roster, departures);
  if (!awaits_earlier_) return members;
  for (const Member* member : predecessors_.Remaining(departures)) {
    if (generation.FindLast(member->node_id) == nullptr && roster.Find(member->node_id) == nullptr)
      members.push_back(member);
  }
  return members;
}

std::vector<const Member*> TakeoverQuorum::Absent(const GenerationRecord& generation, const Roster& roster,
                                                  const Departures& departures) const {
  std::vector<const Member*> members;
  if (!generation.known()) return members;
  for (const int rank : roster.attendance().absent()) {
    const Member& member = generation.last()->members[static_cast<size_t>(rank)];
    if (!departures.Gone(member.node_id)) members.push_back(&member);
  }
  return members;
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

bool TakeoverQuorum::DecidedByMembers(const GenerationRecord& generation,
                                      const Departures& departures) const {
  return Applies(generation) && !takeover_any_ && generation.known() && !NobodyLeft(generation, departures);
}

bool TakeoverQuorum::HostMayHaveGoneOn(const GenerationRecord& generation, const Roster& roster,
                                       const Departures& departures) const {
  // Elsewhere each of several services needs the members; and an operator's word is the last one.
  if (!role_.standby || listed_ || departures.AnyEvicted()) return false;
  if (takeover_majority_ && AreMajority(CountOf(generation, roster.attendance().absent(), departures)))
    return false;
  const std::vector<Member>& members = generation.last()->members;
  return std::none_of(members.begin(), members.end(), [&](const Member& member) {
    const RosterNode* node = roster.Find(member.node_id);
    return node != nullptr && node->with_host;
  });
}

bool TakeoverQuorum::HasEnough(const GenerationRecord& generation, const Roster& roster,
                               const Departures& departures) const {
  return !HostMayHaveGoneOn(generation, roster, departures) &&
         AreEnough(generation, roster.attendance().absent(), departures);
}

TakeoverQuorum::Count TakeoverQuorum::CountOf(const GenerationRecord& generation, const std::set<int>& absent,
                                              const Departures& departures) {
  const std::vector<Member>& members = generation.last()->members;
  // Counted from those that are gone: there are few, and members may be thousands.
  size_t missing = absent.size(), here = members.size(), counted = members.size();
  for (const std::string& node_id : departures.AllGone()) {
    const Member* member = generation.FindLast(node_id);
    if (member == nullptr) continue;
    missing -= absent.count(member->node_rank);
    --here;
    if (departures.Left(node_id)) --counted;
  }
  const auto lowest = std::find_if(members.begin(), members.end(),
                                   [&](const Member& m) { return !departures.Left(m.node_id); });
  const bool lowest_here =
      lowest != members.end() && !departures.Gone(lowest->node_id) && !absent.contains(lowest->node_rank);
  return {here - missing, missing, counted, lowest_here};
}

bool TakeoverQuorum::AreMajority(const Count& count) const {
  // Of two halves one alone has the lowest rank. Services of a list may know different generations, and may
  // not count on that.
  return 2 * count.here > count.counted || (!listed_ && 2 * count.here == count.counted && count.lowest_here);
}

bool TakeoverQuorum::AreEnough(const GenerationRecord& generation, const std::set<int>& absent,
                               const Departures& departures) const {
  const Count count = CountOf(generation, absent, departures);
  return count.missing == 0 || AreMajority(count);
}

std::optional<std::string> TakeoverQuorum::WhyNot(const GenerationRecord& generation, const Roster& roster,
                                                  const Departures& departures) const {
  if (role_.standby && !generation.known()) return kStandsBy;
  if (!Applies(generation) || takeover_any_) return std::nullopt;
  if (!generation.known()) return WhyNotBegin();
  if (NobodyLeft(generation, departures)) return WhyNotBeginAgain(generation, departures);
  if (HasEnough(generation, roster, departures)) return std::nullopt;
  if (HostMayHaveGoneOn(generation, roster, departures)) {
    return absl::StrCat("holding: the nodes of generation ", generation.id().number,
                        " had lost their host before it was found dead, and it may have gone on with others; "
                        "waiting for a service at ",
                        role_.endpoint, ": start mtrun there again; ", Departures::kAdvice);
  }
  const std::vector<const Member*> missing = Absent(generation, roster, departures);
  std::vector<std::string> names;
  for (const Member* member : missing) names.push_back(member->host);
  return absl::StrCat("holding: of generation ", generation.id().number, " ", absl::StrJoin(names, ", "),
                      missing.size() == 1 ? " is" : " are",
                      " not here and may still run elsewhere (--rdzv_conf takeover=any continues without); ",
                      Departures::kAdvice);
}

std::optional<std::string> TakeoverQuorum::WhyNotOf(const std::vector<std::string>& nodes,
                                                    const GenerationRecord& generation, const Roster& roster,
                                                    const Departures& departures) {
  awaits_earlier_ = false;
  if (!DecidedByMembers(generation, departures)) return std::nullopt;
  const std::set<std::string> inside(nodes.begin(), nodes.end());
  std::set<int> missing = roster.attendance().absent();
  std::vector<std::string> names;
  for (const Member& member : generation.last()->members) {
    const bool left_out = !inside.contains(member.node_id) && !departures.Gone(member.node_id);
    if (left_out && missing.insert(member.node_rank).second) names.push_back(member.host);
  }
  if (!names.empty() && !AreEnough(generation, missing, departures)) {
    return absl::StrCat("waiting for ", absl::StrJoin(names, ", "), " to be ready: without ",
                        names.size() == 1 ? "it" : "them", " too few nodes of generation ",
                        generation.id().number,
                        " would be in the next one, and another service could form one too");
  }
  names.clear();
  const Predecessors::Predecessor* earlier = predecessors_.FindUnsure(inside, departures);
  if (earlier == nullptr) return std::nullopt;
  awaits_earlier_ = true;
  for (const Member& member : earlier->generation.members) {
    const bool counts = inside.contains(member.node_id) || earlier->aware.contains(member.node_id) ||
                        earlier->gone.contains(member.node_id) || departures.Gone(member.node_id);
    if (!counts) names.push_back(member.host);
  }
  return absl::StrCat("holding: of generation ", earlier->generation.generation.number, " ",
                      absl::StrJoin(names, ", "),
                      " may not have heard that it was followed, and another service could follow it too; ",
                      Departures::kAdvice);
}

bool TakeoverQuorum::Allows(const GenerationRecord& generation, const Roster& roster,
                            const Departures& departures) const {
  return DecidedByMembers(generation, departures) ? HasEnough(generation, roster, departures)
                                                  : !WhyNot(generation, roster, departures);
}

bool TakeoverQuorum::HasMost(const GenerationRecord& generation, const Roster& roster,
                             const Departures& departures) const {
  return DecidedByMembers(generation, departures) && HasEnough(generation, roster, departures);
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

std::map<std::string, PresenceProbe> TakeoverQuorum::Missing(const GenerationRecord& generation,
                                                             const Roster& roster,
                                                             const Departures& departures) const {
  std::map<std::string, PresenceProbe> members;
  for (const Member* member : Unaccounted(generation, roster, departures)) {
    if (member->presence_port > 0) members[member->node_id] = ProbeOf(*member);
  }
  return members;
}

std::string TakeoverQuorum::Describe() const {
  if (!listed_ && peers_.empty()) return "the only service";
  std::vector<std::string> peers;
  for (const PeerService& peer : peers_) {
    peers.push_back(absl::StrCat(peer.endpoint, " ", StateName(peer.state),
                                 peer.generation.number > 0 ? absl::StrCat(" ", peer.generation.number) : "",
                                 peer.authority ? " authority" : ""));
  }
  return absl::StrCat(takeover_any_ ? "takeover by any" : "takeover by majority", ", services {",
                      absl::StrJoin(peers, ", "), "}", moved_ ? ", moved" : "",
                      predecessors_.empty() ? "" : absl::StrCat(", before it ", predecessors_.Describe()));
}

}  // namespace mtrun::rendezvous
