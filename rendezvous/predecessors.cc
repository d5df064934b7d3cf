#include "rendezvous/predecessors.h"

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

/// Enough of its members are aware for nobody to follow it elsewhere.
bool IsSure(const Predecessors::Predecessor& predecessor) {
  const size_t members = predecessor.generation.members.size(), aware = predecessor.aware.size();
  // Of thousands all are looked at only when it may be.
  const bool may_be =
      2 * aware + predecessor.left.size() > members || aware + predecessor.gone.size() >= members;
  return may_be && AreMost(
                       predecessor.generation.members,
                       [&](const std::string& id) { return predecessor.aware.contains(id); },
                       predecessor.gone, predecessor.left);
}

}  // namespace

bool AreMost(const std::vector<Member>& members, const std::function<bool(const std::string&)>& present,
             const std::set<std::string>& gone, const std::set<std::string>& left) {
  size_t here = 0, missing = 0, counted = 0;
  for (const Member& member : members) {
    if (left.contains(member.node_id)) continue;
    ++counted;
    if (gone.contains(member.node_id)) continue;
    ++(present(member.node_id) ? here : missing);
  }
  return AreMost(here, missing, counted);
}

void Predecessors::OnFollowed(const Assignment& last, const Departures& departures) {
  predecessors_.push_back({last, MemberIndex(last.members), {}, {}, {}});
  for (Predecessor& each : predecessors_) Note(departures, &each);
  std::erase_if(predecessors_, IsSure);
}

void Predecessors::OnLearned(const Assignment& last) {
  predecessors_.clear();
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
  std::erase_if(predecessors_, IsSure);
}

std::vector<EarlierGeneration> Predecessors::Before(const Assignment& next) const {
  if (predecessors_.empty()) return {};  // mostly, and members may be thousands
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
  if (news) std::erase_if(predecessors_, IsSure);
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
