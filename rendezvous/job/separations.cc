#include "rendezvous/job/separations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {
namespace {

const Member* MemberOfRank(const std::vector<Member>& members, int rank) {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& member) {
    return rank >= member.first_rank && rank < member.first_rank + member.workers;
  });
  return found == members.end() ? nullptr : &*found;
}

}  // namespace

void Separations::OnUnreached(const std::string& from, int peer, const GenerationRecord& generation,
                              TimePoint now) {
  const Member* one = generation.FindRunning(from);
  if (one == nullptr || pairs_.size() >= kMaxPairs) return;
  const Member* other = MemberOfRank(generation.last()->members, peer);
  if (other == nullptr || other->node_id == one->node_id) return;
  if (other->node_rank < one->node_rank) std::swap(one, other);
  const bool news = pairs_.insert({one->node_id, other->node_id}).second;
  if (news && !decide_at_) decide_at_ = now + kGather;
}

void Separations::OnStep(const GenerationRecord& generation) {
  Forget();
  if (out_.empty() || !generation.running()) return;
  for (const Member& member : generation.last()->members) out_.erase(member.node_id);
}

void Separations::Forget() {
  pairs_.clear();
  decide_at_.reset();
}

/// Does not search for a smallest set: removes the node in most pairs until no pair is left.
std::set<std::string> Separations::Choose(const std::vector<Member>& members) const {
  std::set<Pair> left = pairs_;
  std::set<std::string> chosen;
  while (!left.empty()) {
    std::map<std::string, size_t> counts;
    for (const auto& [one, other] : left) ++counts[one], ++counts[other];
    const Member* most = nullptr;
    for (const Member& member : members) {  // by rank: the last one of equal nodes is taken
      if (counts.contains(member.node_id) &&
          (most == nullptr || counts[member.node_id] >= counts[most->node_id]))
        most = &member;
    }
    if (most == nullptr) break;
    chosen.insert(most->node_id);
    std::erase_if(
        left, [&](const Pair& pair) { return pair.first == most->node_id || pair.second == most->node_id; });
  }
  return chosen;
}

NodesSeparated Separations::PairsOf(const Roster& roster) const {
  NodesSeparated apart;
  for (const auto& [one, other] : pairs_) {
    if (apart.pairs.size() == NodesSeparated::kMaxShown) break;
    apart.pairs.push_back({roster.Name(one), roster.Name(other)});
  }
  apart.more = static_cast<int>(pairs_.size() - apart.pairs.size());
  return apart;
}

void Separations::LetIn(Roster* roster, TimePoint now) {
  for (auto& [node_id, out] : out_) {
    if (!out.ends) continue;
    const bool alone = std::none_of(out.others.begin(), out.others.end(),
                                    [&](const std::string& other) { return roster->Find(other) != nullptr; });
    const bool over = alone || now >= *out.ends;
    if (over) out.ends.reset();
    const RosterNode* node = roster->Find(node_id);
    // A node that has come back under the same id stays out.
    if (node != nullptr && node->kept_out == over)
      roster->Change(node_id, [&](RosterNode& changed) { changed.kept_out = !over; });
  }
}

std::optional<NodesSeparated> Separations::Settle(const GenerationRecord& generation, size_t least,
                                                  Roster* roster, EffectList* effects, TimePoint now) {
  LetIn(roster, now);
  if (!generation.running() || generation.result_safe()) Forget();
  if (!decide_at_ || now < *decide_at_) return std::nullopt;
  decide_at_.reset();
  const std::vector<Member>& members = generation.last()->members;
  const std::set<std::string> chosen = Choose(members);
  NodesSeparated apart = PairsOf(*roster);
  const std::string what = rendezvous::Describe(apart);
  if (members.size() < least + chosen.size()) {
    const std::string text =
        absl::StrCat(what, "; without ", chosen.size() == 1 ? "one of them" : "some of them",
                     " too few nodes would be left, so all wait for a connection");
    effects->LogDetail(text);
    for (const Member& member : members) {
      if (roster->Find(member.node_id) != nullptr) effects->Send(member.node_id, Waiting{text});
    }
    return std::nullopt;
  }
  for (const std::string& node_id : chosen) {
    Out& out = out_[node_id];
    out.others.clear();
    for (const auto& [one, other] : pairs_) {
      if (one == node_id || other == node_id) out.others.insert(one == node_id ? other : one);
    }
    out.pause = out.pause == Duration::zero() ? kFirstPause : std::min(2 * out.pause, kMaxPause);
    out.ends = now + out.pause;
    apart.without.push_back(roster->Name(node_id));
    if (roster->Find(node_id) == nullptr) continue;
    roster->Change(node_id, [](RosterNode& node) { node.kept_out = true; });
    effects->Send(node_id,
                  Waiting{absl::StrCat("spare: ", what, "; this node is tried again after ",
                                       HumanDuration(out.pause), ", or once the other one has gone")});
  }
  Forget();
  return apart;
}

std::optional<TimePoint> Separations::NextDeadline() const {
  std::optional<TimePoint> next = decide_at_;
  for (const auto& [node_id, out] : out_) next = Earlier(next, out.ends);
  return next;
}

std::string Separations::Describe(TimePoint now) const {
  std::vector<std::string> texts;
  for (const auto& [one, other] : pairs_) texts.push_back(absl::StrCat(one, " not ", other));
  if (decide_at_) texts.push_back(absl::StrCat("decides ", Until(decide_at_, now)));
  for (const auto& [node_id, out] : out_) {
    texts.push_back(absl::StrCat(node_id, out.ends ? " out until " : " was out for ",
                                 out.ends ? Until(out.ends, now) : HumanDuration(out.pause)));
  }
  return texts.empty() ? "" : absl::StrCat("separated: ", absl::StrJoin(texts, ", "));
}

}  // namespace mtrun::rendezvous
