#include "rendezvous/roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/until.h"

namespace mtrun::rendezvous {

Roster::Roster(const JobSettings& settings)
    : heartbeat_interval_(settings.heartbeat_interval),
      lease_(settings.heartbeat_interval * settings.heartbeats_missed),
      reconnect_grace_(settings.reconnect_grace) {}

RosterNode* Roster::Find(const std::string& node_id) {
  const auto node = nodes_.find(node_id);
  return node == nodes_.end() ? nullptr : &node->second;
}

const RosterNode* Roster::Find(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  return node == nodes_.end() ? nullptr : &node->second;
}

std::string Roster::Name(const std::string& node_id) const {
  const RosterNode* node = Find(node_id);
  if (node == nullptr || !node->offer) return node_id;
  const std::string& host = node->offer->host;
  const auto same_host = [&](const auto& entry) {
    return entry.second.offer && entry.second.offer->host == host;
  };
  return host.empty() || std::count_if(nodes_.begin(), nodes_.end(), same_host) > 1 ? node_id : host;
}

/// Among very many nodes finding out whether the host alone names one takes too long.
std::string Roster::ShortName(const std::string& node_id, const RosterNode& node) const {
  const bool many = nodes_.size() > kFewNodes;
  return many && node.offer && !node.offer->host.empty() ? node.offer->host : Name(node_id);
}

// ---- what nodes do ----

RosterNode& Roster::Open(const std::string& node_id, TimePoint now) {
  RosterNode& node = nodes_[node_id];
  node.connected = true;
  Touch(node, now);
  return node;
}

void Roster::Close(const std::string& node_id, const std::string& why, TimePoint now) {
  RosterNode* node = Find(node_id);
  if (node == nullptr || !node->connected) return;
  node->connected = false;
  node->closed_why = why;
  node->lost_at = now + reconnect_grace_;
  node->extensions = 0;
}

void Roster::Touch(RosterNode& node, TimePoint now) const {
  node.heard_at = now;
  node.extensions = 0;
  // What was read from a broken stream last does not revive it.
  if (node.connected) node.lost_at = now + lease_;
}

bool Roster::Beat(RosterNode& node, Duration main_loop_age, const std::string& note, TimePoint now) const {
  Touch(node, now);
  const bool was_stuck = node.main_loop_age >= kStuckMainLoop;
  node.main_loop_age = main_loop_age;
  if (node.note != note) node.note = note, node.noted_at = now;
  return main_loop_age >= kStuckMainLoop && !was_stuck;
}

void Roster::TakeOffer(RosterNode& node, const Offer& offer) {
  const bool ready = offer.workers > 0;
  if (ready && !node.offered) node.arrival = ++arrivals_;
  node.offer = offer;
  node.offered = ready;
  node.starting = !ready;
}

// ---- generations ----

void Roster::Assign(RosterNode& node, const Member& member, uint64_t generation) {
  node.place = member.node_rank;
  if (node.joined == 0) node.joined = generation;
}

RosterNode& Roster::Expect(const Member& member, TimePoint lost_at, TimePoint now) {
  const auto [entry, created] = nodes_.try_emplace(member.node_id);
  RosterNode& node = entry->second;
  if (!created) return node;
  Offer offer;
  offer.node_id = member.node_id;
  offer.host = member.host;
  offer.address = member.address;
  offer.role = member.role;
  offer.workers = member.workers;
  node.offer = offer;
  node.expected = true;
  node.heard_at = now;
  node.lost_at = lost_at;
  node.closed_why = "it did not come back to the new service";
  return node;
}

void Roster::ExpectAll(const Assignment& generation, TimePoint lost_at, TimePoint now) {
  for (const Member& member : generation.members) {
    RosterNode& node = Expect(member, lost_at, now);
    node.confirmed = false;
    node.knows = generation.generation;
    Assign(node, member, generation.generation.number);
  }
}

void Roster::ExpectUntil(TimePoint lost_at) {
  for (auto& [node_id, node] : nodes_) {
    if (node.expected) node.lost_at = std::min(node.lost_at, lost_at);
  }
}

bool Roster::AllConfirmed(const Assignment& assignment) const {
  return std::all_of(assignment.members.begin(), assignment.members.end(), [&](const Member& m) {
    const RosterNode* node = Find(m.node_id);
    return node != nullptr && node->confirmed;
  });
}

bool Roster::MostConfirmed(const Assignment& assignment) const {
  const auto confirmed = static_cast<size_t>(
      std::count_if(assignment.members.begin(), assignment.members.end(), [&](const Member& m) {
        const RosterNode* node = Find(m.node_id);
        return node != nullptr && node->confirmed;
      }));
  return 2 * confirmed > assignment.members.size();
}

std::string Roster::YetToSay(uint64_t number) const {
  const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return entry.second.connected && !entry.second.greeted && entry.second.seen > number;
  });
  return node == nodes_.end() ? "" : ShortName(node->first, node->second);
}

std::vector<std::string> Roster::OfOtherRuns(const JobRun& run, const GenerationRecord& generation) const {
  std::vector<std::string> others;
  for (const auto& [node_id, node] : nodes_) {
    if (run.IsOther(node.run) && generation.FindLast(node_id) == nullptr) others.push_back(node_id);
  }
  return others;
}

bool Roster::RunsWithout(const std::string& node_id, bool progressed) const {
  const uint64_t joined = nodes_.at(node_id).joined;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    const bool other = entry.first != node_id && entry.second.greeted;
    const bool older = entry.second.joined > 0 && entry.second.joined < joined;
    return other && (progressed || older);
  });
}

FormationInput Roster::Candidates(bool whole) const {
  FormationInput input;
  const size_t most_names = nodes_.size() > kFewNodes ? 3 : kFewNodes;
  size_t ready = 0, starting = 0, awaited = 0;
  for (const auto& [node_id, node] : nodes_) {
    if (node.ready()) {
      ++ready;
      if (whole) {
        input.ready.push_back(
            Candidate{node_id, node.offer->host, node.offer->node_rank, node.place, node.arrival});
      }
    } else if (node.starting && node.connected) {
      if (++starting <= most_names) input.starting.push_back(ShortName(node_id, node));
    } else if (node.place) {
      if (++awaited <= most_names) input.awaited.push_back(ShortName(node_id, node));
    }
  }
  input.ready.resize(ready);
  const auto cut = [&](std::vector<std::string>& names, size_t count) {
    if (count > names.size()) names.push_back(absl::StrCat("and ", count - names.size(), " more"));
  };
  cut(input.awaited, awaited);
  cut(input.starting, starting);
  return input;
}

// ---- leases ----

std::optional<TimePoint> Roster::NextLoss() const {
  std::optional<TimePoint> next;
  for (const auto& [node_id, node] : nodes_) next = Earlier(next, node.lost_at);
  return next;
}

std::vector<Roster::Lost> Roster::Expired(bool all, TimePoint now) const {
  std::vector<Lost> lost;
  for (const auto& [node_id, node] : nodes_) {
    if (node.lost_at > now && !all) continue;
    lost.push_back(Lost{node_id, node.connected
                                     ? absl::StrCat("no heartbeat for ", HumanDuration(now - node.heard_at))
                                     : node.closed_why});
  }
  return lost;
}

void Roster::ExtendLeases(Duration late, TimePoint now) {
  for (auto& [node_id, node] : nodes_) {
    if (node.extensions >= kMaxExtensions) continue;
    ++node.extensions;
    const Duration at_least = node.connected ? heartbeat_interval_ : reconnect_grace_;
    node.lost_at = std::max(node.lost_at + late, now + at_least);
  }
}

std::string Roster::Describe(TimePoint now) const {
  std::vector<std::pair<uint64_t, std::string>> arrivals;
  for (const auto& [node_id, node] : nodes_) arrivals.emplace_back(node.arrival, node_id);
  std::sort(arrivals.begin(), arrivals.end());
  std::string text;
  for (const auto& [arrival, node_id] : arrivals) {
    const RosterNode& node = nodes_.at(node_id);
    absl::StrAppend(
        &text, "  ", node_id, node.connected ? " here" : " away", node.offered ? " ready" : "",
        node.starting ? " starting" : "", node.confirmed ? " confirmed" : "", node.greeted ? "" : " new",
        node.expected ? " expected" : "", node.joined > 0 ? absl::StrCat(" since ", node.joined) : "",
        " place ", node.place ? absl::StrCat(*node.place) : "-", ", lost ", Until(node.lost_at, now),
        " after ", node.extensions, " extensions, early ", node.early.size(), ", told \"", node.told, "\"",
        node.offer ? absl::StrCat(", ", rendezvous::Describe(AgentEvent(OfferSent{*node.offer}))) : "", "\n");
  }
  return text;
}

}  // namespace mtrun::rendezvous
