#include "rendezvous/authority/attendance.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

template <typename Key>
void Put(std::set<Key>& keys, const Key& key, bool is_in) {
  if (is_in) {
    keys.insert(key);
  } else {
    keys.erase(key);
  }
}

}  // namespace

void Attendance::Follow(const std::optional<Assignment>& generation) {
  *this = Attendance();
  if (!generation) return;
  generation_ = generation->generation;
  for (const Member& member : generation->members) {
    members_[member.node_id] = {member.node_rank, member.workers};
    absent_.insert(absent_.end(), member.node_rank);
  }
}

void Attendance::Change(const std::string& node_id, const NodeFacets& before, const NodeFacets& after) {
  if (!generation_) return;
  const auto untold = [&](const NodeFacets& node) {
    return node.connected && node.greeted && node.knows != *generation_;
  };
  if (untold(before) != untold(after)) Put(untold_, node_id, untold(after));
  const auto member = members_.find(node_id);
  if (member == members_.end()) return;
  const auto& [rank, workers] = member->second;
  if (before.confirmed) --confirmed_;
  if (after.confirmed) ++confirmed_;
  if (before.greeted != after.greeted) Put(absent_, rank, !after.greeted);
  Put(ordinary_, rank, after.greeted && after.ordinary);
  Put(fallen_, rank, after.greeted && !after.connected);
  if (before.workers != after.workers) Put(grown_, rank, after.workers > workers);
}

std::string Attendance::Describe() const {
  if (!generation_) return "no generation";
  std::string text = absl::StrCat("generation ", generation_->number, ": ", confirmed_, " of ",
                                  members_.size(), " confirmed");
  const auto add = [&](const char* what, const auto& keys) {
    if (!keys.empty()) absl::StrAppend(&text, ", ", what, " ", absl::StrJoin(keys, " "));
  };
  add("absent", absent_);
  add("grown", grown_);
  add("ordinary", ordinary_);
  add("fallen", fallen_);
  add("untold", untold_);
  return text;
}

}  // namespace mtrun::rendezvous
