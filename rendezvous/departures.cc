#include "rendezvous/departures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"

namespace mtrun::rendezvous {

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
  heard_.clear();
  looks_ = 0;
}

void Departures::OnProbed(const std::set<std::string>& alive) {
  ++looks_;
  verified_.insert(alive.begin(), alive.end());
}

bool Departures::IsOut(const Member& member, const Roster& roster) const {
  const std::string& id = member.node_id;
  if (Gone(id) || broken_.contains(id)) return true;
  const RosterNode* node = roster.Find(id);
  return node != nullptr && (node->offered || node->starting);
}

TimePoint Departures::HeardOf(const Member& member, const Roster& roster) const {
  const RosterNode* node = roster.Find(member.node_id);
  if (node != nullptr && node->greeted) return node->heard_at;
  const auto lost = heard_.find(member.node_id);
  return lost == heard_.end() ? began_ : lost->second;
}

std::optional<TimePoint> Departures::FirstLeaseEnd(const GenerationRecord& generation,
                                                   const Roster& roster) const {
  std::optional<TimePoint> first;
  if (!generation.known() || lease_ == Duration::zero()) return first;
  for (const Member& member : generation.last()->members)
    first = Earlier(first, HeardOf(member, roster) + lease_ + Margin());
  return first;
}

bool Departures::Over(const GenerationRecord& generation, const Roster& roster, TimePoint now) const {
  if (!generation.known()) return true;
  const std::vector<Member>& members = generation.last()->members;
  if (std::any_of(members.begin(), members.end(), [&](const Member& m) { return IsOut(m, roster); }))
    return true;
  const std::optional<TimePoint> ends = FirstLeaseEnd(generation, roster);
  return ends && now >= *ends;
}

std::optional<std::string> Departures::WhyNot(const GenerationRecord& generation, const Roster& roster,
                                              TimePoint now) const {
  if (Over(generation, roster, now)) return std::nullopt;
  const std::vector<Member>& members = generation.last()->members;
  std::vector<std::string> names;
  for (const Member& member : members) names.push_back(member.host);
  if (names.size() > Roster::kFewNodes) {
    names.resize(3);
    names.push_back(absl::StrCat(members.size() - 3, " more"));
  }
  return absl::StrCat(
      "holding: generation ", generation.id().number, " may still run on ", absl::StrJoin(names, ", "),
      "; waiting until one of its nodes comes back, is found dead",
      lease_ == Duration::zero()
          ? std::string(" (fence_timeout=never)")
          : absl::StrCat(", or has been away for ", HumanDuration(lease_), " (fence_timeout)"));
}

std::map<std::string, PresenceProbe> Departures::Request(const GenerationRecord& generation,
                                                         const Roster& roster) const {
  std::map<std::string, PresenceProbe> wanted;
  if (!generation.known() || (generation.running() && looks_ >= kMostLooks)) return wanted;
  size_t looked = 0;
  for (const Member& member : generation.last()->members) {
    if (member.presence_port == 0) continue;
    if (++looked > kMostLooked) break;
    if (dead_.contains(member.node_id)) continue;
    const RosterNode* node = roster.Find(member.node_id);
    const bool here = node != nullptr && node->greeted && node->connected;
    if (generation.running() ? Verified(member.node_id) : here) continue;
    wanted[member.node_id] = {ToText(Endpoint{member.address, member.presence_port}), member.presence_id};
  }
  return wanted;
}

std::string Departures::Describe() const {
  return absl::StrCat("left {", absl::StrJoin(left_, " "), "}, dead {", absl::StrJoin(dead_, " "),
                      "}, broken {", absl::StrJoin(broken_, " "), "}, verified {",
                      absl::StrJoin(verified_, " "), "}, looks ", looks_);
}

}  // namespace mtrun::rendezvous
