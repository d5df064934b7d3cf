#include "rendezvous/authority/predecessors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

void Note(const Departures& departures, Predecessors::Predecessor* predecessor) {
  for (const Member& member : predecessor->generation.members) {
    if (departures.Gone(member.node_id)) predecessor->gone.insert(member.node_id);
    if (departures.Left(member.node_id)) predecessor->left.insert(member.node_id);
  }
}

const Member* FindIn(const Predecessors::Predecessor& predecessor, const std::string& node_id) {
  return predecessor.index.Find(predecessor.generation.members, node_id);
}

/// True if enough members are aware that no other service can follow the generation.
bool IsSure(const Predecessors::Predecessor& predecessor) {
  const size_t members = predecessor.generation.members.size(), aware = predecessor.aware.size();
  // Visits all members, possibly thousands, only if the answer may be yes.
  const bool may_be =
      2 * aware + predecessor.left.size() > members || aware + predecessor.gone.size() >= members;
  return may_be && CountMembers(
                       predecessor.generation.members,
                       [&](const std::string& id) { return predecessor.aware.contains(id); },
                       predecessor.gone, predecessor.left)
                       .IsQuorum();
}

}  // namespace

MemberCount CountMembers(const std::vector<Member>& members,
                         const std::function<bool(const std::string&)>& present,
                         const std::set<std::string>& gone, const std::set<std::string>& left) {
  MemberCount count;
  for (const Member& member : members) {
    if (left.contains(member.node_id)) continue;
    ++count.counted;
    if (gone.contains(member.node_id)) continue;
    ++(present(member.node_id) ? count.here : count.missing);
  }
  return count;
}

void Predecessors::OnFollowed(const Assignment& last, const Departures& departures) {
  predecessors_.push_back({last, MemberIndex(last.members), {}, {}, {}});
  followed_.insert(last.generation);
  for (Predecessor& each : predecessors_) Note(departures, &each);
  DropSure();
}

void Predecessors::DropSure() {
  std::erase_if(predecessors_, IsSure);
  if (predecessors_.empty()) followed_.clear();
}

void Predecessors::OnReported(const Assignment& other, const Generation& last) {
  const Generation& id = other.generation;
  if (predecessors_.empty() || id >= last || followed_.contains(id)) return;
  const auto later = std::find_if(predecessors_.begin(), predecessors_.end(),
                                  [&](const Predecessor& each) { return each.generation.generation >= id; });
  // If it is older than the oldest one, enough members of its predecessors know of this service's.
  if (later == predecessors_.begin()) return;
  if (later != predecessors_.end() && later->generation.generation == id) return;
  predecessors_.insert(later, {other, MemberIndex(other.members), {}, {}, {}});
}

void Predecessors::OnLearned(const std::optional<Assignment>& before, const Assignment& last) {
  const std::vector<Predecessor> known = std::exchange(predecessors_, {});
  followed_.clear();
  for (const EarlierGeneration& earlier : last.earlier) {
    Predecessor learned;
    learned.generation.generation = earlier.generation;
    const std::set<std::string> newcomers(earlier.newcomers.begin(), earlier.newcomers.end());
    std::vector<Member>& members = learned.generation.members;
    for (const Member& member : last.members) {
      if (!newcomers.contains(member.node_id)) members.push_back(member);
    }
    members.insert(members.end(), earlier.others.begin(), earlier.others.end());
    learned.index = MemberIndex(members);
    learned.gone.insert(earlier.gone.begin(), earlier.gone.end());
    predecessors_.push_back(std::move(learned));
  }
  DropSure();
  for (const Predecessor& each : known) OnReported(each.generation, last.generation);
  if (before) OnReported(*before, last.generation);
}

std::vector<EarlierGeneration> Predecessors::Before(const Assignment& next) const {
  if (predecessors_.empty()) return {};  // the usual case; members may be thousands
  const MemberIndex in_next(next.members);
  std::vector<EarlierGeneration> all;
  const size_t most = size_t{kMaxEarlier};
  for (size_t i = predecessors_.size() - std::min(predecessors_.size(), most); i < predecessors_.size();
       ++i) {
    const Predecessor& each = predecessors_[i];
    EarlierGeneration earlier;
    earlier.generation = each.generation.generation;
    for (const Member& member : next.members) {
      if (FindIn(each, member.node_id) == nullptr) earlier.newcomers.push_back(member.node_id);
    }
    for (const Member& member : each.generation.members) {
      if (in_next.Find(next.members, member.node_id) != nullptr || each.left.contains(member.node_id))
        continue;
      earlier.others.push_back(member);
      if (each.gone.contains(member.node_id)) earlier.gone.push_back(member.node_id);
    }
    all.push_back(std::move(earlier));
  }
  return all;
}

void Predecessors::AppendServices(std::vector<std::string>* endpoints) const {
  for (const Predecessor& each : predecessors_) rendezvous::AppendServices(each.generation, endpoints);
}

void Predecessors::OnKnown(const std::string& node_id, const Generation& generation, const Generation& last) {
  if (predecessors_.empty()) return;
  bool later = generation == last, news = false;
  for (size_t i = predecessors_.size(); i-- > 0;) {
    Predecessor& each = predecessors_[i];
    if (later && FindIn(each, node_id) != nullptr) news |= each.aware.insert(node_id).second;
    later = later || generation == each.generation.generation;
  }
  if (news) DropSure();
}

const Predecessors::Predecessor* Predecessors::FindUnsure(const std::set<std::string>& nodes,
                                                          const Departures& departures) const {
  const auto unsure = std::find_if(predecessors_.begin(), predecessors_.end(), [&](Predecessor each) {
    Note(departures, &each);
    for (const std::string& node_id : nodes) {
      if (FindIn(each, node_id) != nullptr) each.aware.insert(node_id);
    }
    return !IsSure(each);
  });
  return unsure == predecessors_.end() ? nullptr : &*unsure;
}

std::vector<const Member*> Predecessors::Remaining(const Departures& departures) const {
  std::set<std::string> seen;
  std::vector<const Member*> members;
  for (const Predecessor& each : predecessors_) {
    for (const Member& member : each.generation.members) {
      const bool gone = each.gone.contains(member.node_id) || departures.Gone(member.node_id);
      if (!gone && seen.insert(member.node_id).second) members.push_back(&member);
    }
  }
  return members;
}

const Member* Predecessors::Find(const std::string& node_id) const {
  for (const Predecessor& each : predecessors_) {
    if (const Member* member = FindIn(each, node_id)) return member;
  }
  return nullptr;
}

std::string Predecessors::Describe() const {
  std::vector<std::string> texts;
  for (const Predecessor& each : predecessors_) {
    texts.push_back(absl::StrCat(each.generation.generation.number, " known by {",
                                 absl::StrJoin(each.aware, " "), "}, gone {", absl::StrJoin(each.gone, " "),
                                 "}"));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace mtrun::rendezvous
