#include "rendezvous/authority/roster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

Roster::Roster(const JobSettings& settings)
    : heartbeat_interval_(settings.heartbeat_interval),
      lease_(settings.LostAfter()),
      reconnect_grace_(settings.reconnect_grace) {}

const RosterNode* Roster::Find(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  return node == nodes_.end() ? nullptr : &node->second;
}

std::string Roster::Name(const std::string& node_id) const {
  const RosterNode* node = Find(node_id);
  if (node == nullptr || !node->offer) return node_id;
  const std::string& host = node->offer->host;
  return host.empty() || index_.CountOf(host) > 1 ? node_id : host;
}

/// In a job of very many nodes, texts name few, and by their hosts.
std::string Roster::ShortName(const std::string& node_id) const {
  const RosterNode& node = nodes_.at(node_id);
  const bool many = nodes_.size() > kFewNodes;
  return many && node.offer && !node.offer->host.empty() ? node.offer->host : Name(node_id);
}

// ---- the indexes ----

NodeFacets Roster::FacetsOf(const RosterNode& node) {
  NodeFacets facets;
  facets.here = true;
  facets.ready = node.ready();
  facets.starting = node.waits_for_workers();
  facets.awaited = !facets.ready && !facets.starting && !node.kept_out && node.place;
  facets.connected = node.connected;
  facets.confirmed = node.confirmed;
  facets.greeted = node.greeted;
  facets.expected = node.expected;
  facets.ordinary = node.ordinary;
  if (node.offer) facets.workers = node.offer->workers, facets.host = node.offer->host;
  facets.told = node.told;
  facets.run = node.run;
  facets.knows = node.knows;
  facets.lost_at = node.lost_at;
  return facets;
}

void Roster::Reindex(const std::string& node_id, const NodeFacets& before, const NodeFacets& after) {
  index_.Change(node_id, before, after);
  attendance_.Change(node_id, before, after);
}

void Roster::Erase(const std::string& node_id) {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return;
  const NodeFacets before = FacetsOf(node->second);
  const auto gone = nodes_.extract(node);
  Reindex(gone.key(), before, NodeFacets());
}

Roster::Nodes Roster::TakeAll() {
  for (const auto& [node_id, node] : nodes_) Reindex(node_id, FacetsOf(node), NodeFacets());
  return std::exchange(nodes_, {});
}

void Roster::Follow(const std::optional<Assignment>& generation) {
  attendance_.Follow(generation);
  for (const auto& [node_id, node] : nodes_) attendance_.Change(node_id, NodeFacets(), FacetsOf(node));
}

bool Roster::Consistent(const std::optional<Assignment>& generation) const {
  RosterIndex index;
  Attendance attendance;
  attendance.Follow(generation);
  for (const auto& [node_id, node] : nodes_) {
    const NodeFacets facets = FacetsOf(node);
    index.Change(node_id, NodeFacets(), facets);
    attendance.Change(node_id, NodeFacets(), facets);
  }
  return index == index_ && attendance == attendance_;
}

// ---- events of nodes ----

void Roster::Open(const std::string& node_id, TimePoint now) {
  if (const auto [node, created] = nodes_.try_emplace(node_id); created)
    Reindex(node_id, NodeFacets(), FacetsOf(node->second));
  Change(node_id, [](RosterNode& node) {
    node.connected = true;
    node.refused = false;
  });
  Touch(node_id, now);
}

void Roster::Close(const std::string& node_id, const NodeLost& why, TimePoint now) {
  const RosterNode* known = Find(node_id);
  if (known == nullptr || !known->connected) return;
  Change(node_id, [&](RosterNode& node) {
    node.connected = false;
    node.closed_why = why;
    node.lost_at = now + reconnect_grace_;
    node.extensions = 0;
  });
}

void Roster::Touch(const std::string& node_id, TimePoint now) { Touch(node_id, nodes_.at(node_id), now); }

void Roster::Touch(const std::string& node_id, RosterNode& node, TimePoint now) {
  node.heard_at = now;
  node.extensions = 0;
  // A message that was read late from a broken stream does not revive the node.
  if (node.connected) index_.ChangeLoss(node_id, std::exchange(node.lost_at, now + lease_), now + lease_);
}

bool Roster::Beat(const std::string& node_id, const Heartbeat& beat, TimePoint now) {
  const auto known = nodes_.find(node_id);
  if (known == nodes_.end()) return false;
  RosterNode& node = known->second;
  Touch(node_id, node, now);
  const bool was_stuck = node.main_loop_age >= kStuckMainLoop;
  node.main_loop_age = beat.main_loop_age;
  if (node.note != beat.note) node.note = beat.note, node.noted_at = now;
  if (node.ordinary != beat.ordinary)
    Change(node_id, [&](RosterNode& changed) { changed.ordinary = beat.ordinary; });
  return beat.main_loop_age >= kStuckMainLoop && !was_stuck;
}

void Roster::TakeOffer(const std::string& node_id, const Offer& offer) {
  const bool ready = offer.workers > 0;
  Change(node_id, [&](RosterNode& node) {
    if (ready && !node.offered) node.arrival = ++arrivals_;
    node.offer = offer;
    node.offered = ready;
    node.starting = !ready;
  });
}

// ---- generations ----

void Roster::ClearPlaces() {
  for (const auto& [node_id, node] : nodes_) {
    if (node.place) Change(node_id, [](RosterNode& changed) { changed.place.reset(); });
  }
}

void Roster::Assign(RosterNode& node, const Member& member, uint64_t generation) {
  node.place = member.node_rank;
  if (node.joined == 0) node.joined = generation;
}

void Roster::Expect(const Member& member, TimePoint lost_at, TimePoint now) {
  const auto [entry, created] = nodes_.try_emplace(member.node_id);
  if (!created) return;
  RosterNode& node = entry->second;
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
  node.closed_why = {.how = NodeLost::How::kNotBack};
  Reindex(member.node_id, NodeFacets(), FacetsOf(node));
}

void Roster::ExpectAll(const Assignment& generation, TimePoint lost_at, TimePoint now) {
  for (const Member& member : generation.members) {
    Expect(member, lost_at, now);
    Change(member.node_id, [&](RosterNode& node) {
      node.confirmed = false;
      node.knows = generation.generation;
      Assign(node, member, generation.generation.number);
    });
  }
}

void Roster::ExpectUntil(TimePoint lost_at) {
  for (const std::string& node_id : index_.expected())
    PutOffLoss(node_id, std::min(nodes_.at(node_id).lost_at, lost_at));
}

std::string Roster::YetToSay(uint64_t number) const {
  const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return entry.second.connected && !entry.second.greeted && entry.second.seen > number;
  });
  return node == nodes_.end() ? "" : ShortName(node->first);
}

std::vector<std::string> Roster::OfOtherRuns(const JobRun& run, const GenerationRecord& generation) const {
  std::vector<std::string> others;
  if (!index_.KnowsOther(run)) return others;
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

std::vector<std::string> Roster::FewNames(const RosterIndex::Ids& node_ids) const {
  const size_t most_names = nodes_.size() > kFewNodes ? 3 : kFewNodes;
  std::vector<std::string> names;
  for (const std::string& node_id : node_ids) {
    if (names.size() == most_names) break;
    names.push_back(ShortName(node_id));
  }
  if (node_ids.size() > names.size())
    names.push_back(absl::StrCat("and ", node_ids.size() - names.size(), " more"));
  return names;
}

FormationInput Roster::Candidates(bool whole) const {
  FormationInput input;
  input.starting = FewNames(index_.starting());
  input.awaited = FewNames(index_.awaited());
  input.ready_nodes = index_.ready().size();
  if (!whole) return input;
  for (const std::string& node_id : index_.ready()) {
    const RosterNode& node = nodes_.at(node_id);
    input.ready.push_back(Candidate{node_id, node.offer->host, node.offer->node_rank, node.place,
                                    node.arrival, node.offer->address});
  }
  return input;
}

// ---- leases ----

std::optional<TimePoint> Roster::NextLoss() const {
  const auto& losses = index_.losses();
  return losses.empty() ? std::nullopt : std::optional(losses.begin()->first);
}

NodeLost Roster::WhyLost(const std::string& node_id, TimePoint now) const {
  const RosterNode& node = nodes_.at(node_id);
  const NodeLost silent{.how = NodeLost::How::kSilent, .time = now - node.heard_at};
  return node.connected ? silent : node.closed_why;
}

std::vector<Roster::Lost> Roster::Expired(bool all, TimePoint now) const {
  std::vector<Lost> lost;
  for (const auto& [lost_at, node_id] : index_.losses()) {
    if (lost_at > now && !all) break;
    lost.push_back(Lost{node_id, WhyLost(node_id, now)});
  }
  std::sort(lost.begin(), lost.end(), [](const Lost& a, const Lost& b) { return a.node_id < b.node_id; });
  return lost;
}

void Roster::PutOffLoss(const std::string& node_id, TimePoint lost_at) {
  index_.ChangeLoss(node_id, std::exchange(nodes_.at(node_id).lost_at, lost_at), lost_at);
}

void Roster::ExtendLeases(Duration late, TimePoint now) {
  for (auto& [node_id, node] : nodes_) {
    if (node.extensions >= kMaxExtensions) continue;
    ++node.extensions;
    const Duration at_least = node.connected ? heartbeat_interval_ : reconnect_grace_;
    PutOffLoss(node_id, std::max(node.lost_at + late, now + at_least));
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
        node.starting ? " starting" : "", node.kept_out ? " kept out" : "",
        node.confirmed ? " confirmed" : "", node.ordinary ? " ordinary" : "", node.refused ? " refused" : "",
        node.greeted ? "" : " new", node.expected ? " expected" : "",
        node.joined > 0 ? absl::StrCat(" since ", node.joined) : "", " place ",
        node.place ? absl::StrCat(*node.place) : "-", ", lost ", Until(node.lost_at, now), " after ",
        node.extensions, " extensions, early ", node.early.size(), ", told \"", node.told, "\"",
        node.offer ? absl::StrCat(", ", rendezvous::Describe(AgentEvent(OfferSent{*node.offer}))) : "", "\n");
  }
  return text;
}

}  // namespace mtrun::rendezvous
