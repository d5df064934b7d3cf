#include "rendezvous/authority/takeover_quorum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

using Ground = FormationRight::Ground;

/// Names of PeerService::State.
constexpr const char* kStates[] = {"silent", "gone", "self", "without the job", "with the job"};

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
  // A service that keeps the job looks only for one that starts afresh at the endpoint.
  if (!Applies(generation)) return endpoints;
  AppendServices(*generation.last(), &endpoints);
  for (const auto& [node_id, service] : spares_) endpoints.push_back(service);
  // An earlier generation may have been followed at a service that none of these knows.
  if (awaits_earlier_) predecessors_.AppendServices(&endpoints);
  std::set<std::string> seen;
  std::erase_if(endpoints, [&](const std::string& endpoint) { return !seen.insert(endpoint).second; });
  return endpoints;
}

TakeoverQuorum::Decider TakeoverQuorum::DeciderOf(const MembershipView& view) const {
  if (!Applies(view.generation) || takeover_any_) return Decider::kThisService;
  return !view.generation.known() || view.NoneLeft() ? Decider::kServices : Decider::kMembers;
}

bool TakeoverQuorum::NothingLeft(const MembershipView& view, TimePoint now) const {
  return view.NoneLeft() && (!Applies(view.generation) || (!takeover_any_ && !Stale(now)));
}

std::vector<EarlierGeneration> TakeoverQuorum::OnFollowed(const MembershipView& view,
                                                          const Assignment& next) {
  const GenerationRecord& last = view.generation;
  // Even if this service keeps the job whatever its members say, one that takes over from it may not.
  const bool may_be_followed =
      last.known() && !takeover_any_ && (listed_ || last.has_services()) && !view.NoneLeft();
  if (may_be_followed) {
    predecessors_.OnFollowed(*last.last(), view.departures);
  } else {
    predecessors_.Clear();
  }
  formed_here_ = true;
  spares_.clear();
  return predecessors_.Before(next);
}

std::vector<const Member*> TakeoverQuorum::Unaccounted(const MembershipView& view) const {
  std::vector<const Member*> members = view.Absent();
  if (!awaits_earlier_) return members;
  for (const Member* member : predecessors_.Remaining(view.departures)) {
    if (view.generation.FindLast(member->node_id) == nullptr && view.roster.Find(member->node_id) == nullptr)
      members.push_back(member);
  }
  return members;
}

bool TakeoverQuorum::HostMayHaveContinued(const MembershipView& view) const {
  // Otherwise each of several services needs the members. An operator's eviction settles the question.
  if (!role_.standby || listed_ || view.departures.AnyEvicted()) return false;
  if (takeover_majority_ && Count(view, view.roster.attendance().absent()).IsMajority(HalvesSuffice()))
    return false;
  const std::vector<Member>& members = view.generation.last()->members;
  return std::none_of(members.begin(), members.end(), [&](const Member& member) {
    const RosterNode* node = view.roster.Find(member.node_id);
    return node != nullptr && node->with_host;
  });
}

MemberCount TakeoverQuorum::Count(const MembershipView& view, const std::set<int>& absent) {
  const std::vector<Member>& members = view.generation.last()->members;
  // Counts from the members that are gone: they are few, and members may be thousands.
  size_t missing = absent.size(), here = members.size(), counted = members.size();
  for (const std::string& node_id : view.departures.AllGone()) {
    const Member* member = view.generation.FindLast(node_id);
    if (member == nullptr) continue;
    missing -= absent.count(member->node_rank);
    --here;
    if (view.departures.Left(node_id)) --counted;
  }
  const auto lowest = std::find_if(members.begin(), members.end(),
                                   [&](const Member& m) { return !view.departures.Left(m.node_id); });
  const bool lowest_here = lowest != members.end() && !view.departures.Gone(lowest->node_id) &&
                           !absent.contains(lowest->node_rank);
  return {here - missing, missing, counted, lowest_here};
}

FormationRight TakeoverQuorum::Authority(const MembershipView& view) const {
  if (role_.standby && !view.generation.known()) return {Ground::kKnowsNoJob};
  const Decider decider = DeciderOf(view);
  if (decider == Decider::kThisService) return {Ground::kOnlyService};
  if (decider == Decider::kServices)
    return view.generation.known() ? RightToBeginAgain(view) : RightToBegin();
  if (HostMayHaveContinued(view)) return {Ground::kHostMayHaveContinued, role_.endpoint};
  const MemberCount count = Count(view, view.roster.attendance().absent());
  return {count.IsQuorum(HalvesSuffice()) ? Ground::kMembers : Ground::kMembersMissing};
}

FormationRight TakeoverQuorum::RightToForm(const std::vector<std::string>& nodes,
                                           const MembershipView& view) {
  awaits_earlier_ = false;
  const FormationRight authority = Authority(view);
  if (authority.ground != Ground::kMembers) return authority;
  const std::set<std::string> inside(nodes.begin(), nodes.end());
  std::set<int> missing = view.roster.attendance().absent();
  FormationRight left_out{Ground::kMembersLeftOut};
  for (const Member& member : view.generation.last()->members) {
    const bool outside = !inside.contains(member.node_id) && !view.departures.Gone(member.node_id);
    if (outside && missing.insert(member.node_rank).second) left_out.hosts.push_back(member.host);
  }
  if (!left_out.hosts.empty() && !Count(view, missing).IsQuorum(HalvesSuffice())) return left_out;
  const Predecessors::Predecessor* earlier = predecessors_.FindUnsure(inside, view.departures);
  if (earlier == nullptr) return authority;
  awaits_earlier_ = true;
  FormationRight unsure{Ground::kPredecessorMayBeFollowed};
  unsure.number = earlier->generation.generation.number;
  for (const Member& member : earlier->generation.members) {
    const bool counts = inside.contains(member.node_id) || earlier->aware.contains(member.node_id) ||
                        earlier->gone.contains(member.node_id) || view.departures.Gone(member.node_id);
    if (!counts) unsure.hosts.push_back(member.host);
  }
  return unsure;
}

std::map<std::string, PresenceProbe> TakeoverQuorum::Missing(const MembershipView& view) const {
  std::map<std::string, PresenceProbe> members;
  for (const Member* member : Unaccounted(view)) {
    if (member->presence_port > 0) members[member->node_id] = ProbeOf(*member);
  }
  return members;
}

std::string TakeoverQuorum::Describe() const {
  if (!listed_ && peers_.empty()) return "the only service";
  std::vector<std::string> peers;
  for (const PeerService& peer : peers_) {
    peers.push_back(absl::StrCat(peer.endpoint, " ", kStates[static_cast<size_t>(peer.state)],
                                 peer.generation.number > 0 ? absl::StrCat(" ", peer.generation.number) : "",
                                 peer.authority ? " authority" : ""));
  }
  return absl::StrCat(takeover_any_ ? "takeover by any" : "takeover by majority", ", services {",
                      absl::StrJoin(peers, ", "), "}", moved_ ? ", moved" : "",
                      predecessors_.empty() ? "" : absl::StrCat(", before it ", predecessors_.Describe()));
}

}  // namespace mtrun::rendezvous
