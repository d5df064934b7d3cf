#include "rendezvous/takeover_quorum.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

constexpr char kStandsBy[] = "this service takes a job over from a host that is dead, and knows of none";

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
  if (!Applies(generation)) return endpoints;
  AppendServices(*generation.last(), &endpoints);
  if (!awaits_earlier_) return endpoints;
  // An earlier one may have been followed at a service that none of these knows.
  predecessors_.AppendServices(&endpoints);
  std::set<std::string> seen;
  std::erase_if(endpoints, [&](const std::string& endpoint) { return !seen.insert(endpoint).second; });
  return endpoints;
}

bool TakeoverQuorum::DecidedByServices(const GenerationRecord& generation,
                                       const Departures& departures) const {
  return Applies(generation) && !takeover_any_ &&
         (!generation.known() || departures.AreGone(generation.last()->members));
}

bool TakeoverQuorum::NothingLeft(const GenerationRecord& generation, const Departures& departures,
                                 TimePoint now) const {
  if (!generation.known() || !departures.AreGone(generation.last()->members)) return false;
  return !Applies(generation) || (!takeover_any_ && !Stale(now));
}

std::vector<EarlierGeneration> TakeoverQuorum::OnFollowed(const GenerationRecord& generation,
                                                          const Departures& departures,
                                                          const Assignment& next) {
  // Where this one keeps the job whatever its members say, one that takes over from it may not.
  const bool may_be_followed = generation.known() && !takeover_any_ &&
                               (listed_ || generation.has_services()) &&
                               !departures.AreGone(generation.last()->members);
  if (may_be_followed) {
    predecessors_.OnFollowed(*generation.last(), departures);
  } else {
    predecessors_.Clear();
  }
  formed_here_ = true;
  return predecessors_.Before(next);
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

bool TakeoverQuorum::DecidedByMembers(const GenerationRecord& generation,
                                      const Departures& departures) const {
  return Applies(generation) && !takeover_any_ && generation.known() &&
         !departures.AreGone(generation.last()->members);
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
  if (departures.AreGone(generation.last()->members)) return WhyNotBeginAgain(generation, departures);
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
