#include "rendezvous/authority/departures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

/// True if all members of `inner` are members of `generation`.
bool Includes(const Assignment& generation, const Assignment& inner) {
  const MemberIndex index(generation.members);
  const auto is_in = [&](const Member& member) {
    return index.Find(generation.members, member.node_id) != nullptr;
  };
  return std::all_of(inner.members.begin(), inner.members.end(), is_in);
}

}  // namespace

void Departures::OnGeneration(const Assignment& generation, TimePoint heard) {
  std::set<std::string> still;
  for (const Member& member : generation.members) {
    if (verified_.contains(member.node_id)) still.insert(member.node_id);
  }
  verified_ = std::move(still);
  began_ = heard;
  left_.clear();
  dead_.clear();
  broken_.clear();
  evicted_.clear();
  heard_.clear();
  looks_ = 0;
}

void Departures::OnLost(const std::string& node_id, TimePoint heard) {
  heard_[node_id] = heard;
  if (Gone(node_id) || lease_ == Duration::zero()) return;
  std::erase_if(lost_, [&](const auto& lost) { return LeaseEndAfter(lost.second) < heard; });
  lost_[node_id] = heard;
}

bool Departures::AnyLost(TimePoint now) const {
  return std::any_of(lost_.begin(), lost_.end(),
                     [&](const auto& lost) { return now < LeaseEndAfter(lost.second); });
}

void Departures::OnProbed(const std::set<std::string>& alive) {
  ++looks_;
  verified_.insert(alive.begin(), alive.end());
}

void Departures::OnFormed(const GenerationRecord& before, const Roster& roster, TimePoint now) {
  const auto over = [&](const Assignment& generation, std::optional<TimePoint> lease_end) {
    return IsOver(generation, lease_end, roster, now, /*may_come=*/false);
  };
  std::vector<Unsure> candidates = std::exchange(unsure_, {});
  if (before.known() && !over(*before.last(), LeaseEnd(*before.last(), roster)))
    candidates.push_back({*before.last(), now});
  for (Unsure& each : candidates) {
    // If one generation is over, every one that includes its members is over too.
    const bool follows = std::any_of(unsure_.begin(), unsure_.end(), [&](const Unsure& other) {
      return Includes(each.generation, other.generation);
    });
    if (!follows && !over(each.generation, LeaseEndAfter(each.since))) unsure_.push_back(std::move(each));
  }
}

std::set<std::string> Departures::AllGone() const {
  std::set<std::string> gone = left_;
  gone.insert(dead_.begin(), dead_.end());
  gone.insert(evicted_.begin(), evicted_.end());
  return gone;
}

bool Departures::IsOut(const Member& member, const Roster& roster, bool may_come) const {
  const std::string& id = member.node_id;
  if (Gone(id) || broken_.contains(id)) return true;
  const RosterNode* node = roster.Find(id);
  if (node == nullptr || (!node->offered && !node->starting)) return false;
  // A node with a place precedes others in the next generation.
  return !node->offer->ends_step || (may_come && node->ready() && node->place);
}

TimePoint Departures::HeardOf(const Member& member, const Roster& roster) const {
  const RosterNode* node = roster.Find(member.node_id);
  if (node != nullptr && node->greeted) return node->heard_at;
  const auto lost = heard_.find(member.node_id);
  return lost == heard_.end() ? began_ : lost->second;
}

std::optional<TimePoint> Departures::LeaseEnd(const Assignment& generation, const Roster& roster) const {
  std::optional<TimePoint> first;
  for (const Member& member : generation.members)
    first = Earlier(first, LeaseEndAfter(HeardOf(member, roster)));
  return first;
}

std::optional<TimePoint> Departures::FirstLeaseEnd(const GenerationRecord& generation,
                                                   const Roster& roster) const {
  if (!generation.known()) return std::nullopt;
  std::optional<TimePoint> last = LeaseEnd(*generation.last(), roster);
  if (!last) return last;
  for (const Unsure& before : unsure_) last = std::max(*last, *LeaseEndAfter(before.since));
  return last;
}

bool Departures::IsOver(const Assignment& generation, std::optional<TimePoint> lease_end,
                        const Roster& roster, TimePoint now, bool may_come) const {
  return (lease_end && now >= *lease_end) ||
         std::any_of(generation.members.begin(), generation.members.end(),
                     [&](const Member& member) { return IsOut(member, roster, may_come); });
}

const Assignment* Departures::FindRunning(const GenerationRecord& generation, const Roster& roster,
                                          TimePoint now) const {
  if (!generation.known()) return nullptr;
  const Assignment& last = *generation.last();
  if (!IsOver(last, LeaseEnd(last, roster), roster, now, /*may_come=*/true)) return &last;
  const auto before = std::find_if(unsure_.begin(), unsure_.end(), [&](const Unsure& each) {
    return !IsOver(each.generation, LeaseEndAfter(each.since), roster, now, /*may_come=*/true);
  });
  return before == unsure_.end() ? nullptr : &before->generation;
}

std::string Departures::DescribeHold(const Assignment& running) const {
  const std::vector<Member>& members = running.members;
  const bool many = members.size() > Roster::kFewNodes;
  std::vector<std::string> names;
  for (size_t i = 0; i < (many ? 3 : members.size()); ++i) names.push_back(members[i].host);
  if (many) names.push_back(absl::StrCat(members.size() - names.size(), " more"));
  return absl::StrCat(
      "holding: generation ", running.generation.number, " may still run on ", absl::StrJoin(names, ", "),
      "; waiting until one of its nodes comes back, is found dead",
      lease_ == Duration::zero()
          ? std::string(" (fence_timeout=never)")
          : absl::StrCat(", or has been away for ", HumanDuration(lease_), " (fence_timeout)"),
      "; ", kAdvice);
}

bool Departures::IsFallen(const std::string& node_id, const Roster& roster) const {
  const RosterNode* node = roster.Find(node_id);
  return node != nullptr && node->greeted && !node->connected && Verified(node_id) && !Gone(node_id);
}

std::vector<std::string> Departures::Fallen(const GenerationRecord& generation, const Roster& roster) const {
  std::vector<std::string> fallen;
  if (!generation.running()) return fallen;
  for (const std::string& node_id : verified_) {
    if (IsFallen(node_id, roster)) fallen.push_back(node_id);
  }
  return fallen;
}

std::map<std::string, PresenceProbe> Departures::Request(const GenerationRecord& generation,
                                                         const Roster& roster) const {
  std::map<std::string, PresenceProbe> wanted;
  if (!generation.known()) return wanted;
  size_t looked = 0;
  for (const Member& member : generation.last()->members) {
    if (member.presence_port == 0) continue;
    if (++looked > kMaxLooked) break;
    if (dead_.contains(member.node_id) || Evicted(member.node_id)) continue;
    const RosterNode* node = roster.Find(member.node_id);
    const bool here = node != nullptr && node->greeted && node->connected;
    const bool unsure = Verified(member.node_id) ? IsFallen(member.node_id, roster) : looks_ < kMaxLooks;
    if (generation.running() ? !unsure : here) continue;
    wanted[member.node_id] = ProbeOf(member);
  }
  wanted.merge(FallenOrdinary(generation, roster));
  return wanted;
}

std::map<std::string, PresenceProbe> Departures::FallenOrdinary(const GenerationRecord& generation,
                                                                const Roster& roster) const {
  std::map<std::string, PresenceProbe> wanted;
  if (!generation.running() || !roster.attendance().ordinary()) return wanted;
  size_t looked = 0;
  for (const int rank : roster.attendance().fallen()) {
    const Member& member = generation.last()->members[static_cast<size_t>(rank)];
    if (member.presence_port == 0 || Gone(member.node_id)) continue;
    if (++looked > kMaxLooked) break;
    wanted[member.node_id] = ProbeOf(member);
  }
  return wanted;
}

std::map<std::string, PresenceProbe> Departures::Absent(const GenerationRecord& generation,
                                                        const Roster& roster) const {
  std::map<std::string, PresenceProbe> wanted;
  if (!generation.known()) return wanted;
  for (const Member& member : generation.last()->members) {
    const RosterNode* node = roster.Find(member.node_id);
    const bool away = node != nullptr && !node->connected;
    if (away && member.presence_port > 0 && Verified(member.node_id))
      wanted[member.node_id] = ProbeOf(member);
  }
  return wanted;
}

std::string Departures::Describe() const {
  return absl::StrCat("left {", absl::StrJoin(left_, " "), "}, dead {", absl::StrJoin(dead_, " "),
                      "}, broken {", absl::StrJoin(broken_, " "), "}, verified {",
                      absl::StrJoin(verified_, " "), "}, looks ", looks_,
                      unsure_.empty() ? "" : absl::StrCat(", not sure of ", unsure_.size(), " before it"),
                      evicted_.empty() ? "" : absl::StrCat(", evicted {", absl::StrJoin(evicted_, " "), "}"),
                      lost_.empty() ? "" : absl::StrCat(", lost ", lost_.size()));
}

}  // namespace mtrun::rendezvous
