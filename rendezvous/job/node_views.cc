#include "rendezvous/job/node_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {
namespace {

std::string StateOf(const std::string& node_id, const RosterNode& node, const GenerationRecord& generation,
                    bool ended) {
  std::string state = "not ready";
  if (generation.FindRunning(node_id) != nullptr) {
    state = generation.HasFinished(node_id) ? "finished" : node.confirmed ? "member" : "member, unconfirmed";
  } else if (ended) {
    state = "ended";
  } else if (node.offered) {
    state = generation.running() ? "spare" : "ready";
  }
  if (!node.connected) absl::StrAppend(&state, node.expected ? ", expected" : ", away");
  return state;
}

}  // namespace

std::vector<NodeView> MakeNodeViews(const Roster& roster, const GenerationRecord& generation, bool ended,
                                    TimePoint now) {
  std::vector<NodeView> views;
  for (const auto& [node_id, node] : roster.nodes()) {
    NodeView view;
    view.node_id = node_id;
    view.state = StateOf(node_id, node, generation, ended);
    if (node.offer)
      view.host = node.offer->host, view.address = node.offer->address, view.workers = node.offer->workers;
    if (const Member* member = generation.FindRunning(node_id))
      view.node_rank = member->node_rank, view.first_rank = member->first_rank;
    view.silent_for = now - node.heard_at;
    view.main_loop_age = node.main_loop_age;
    view.note = node.note;
    if (!view.note.empty()) view.note_age = now - node.noted_at;
    views.push_back(std::move(view));
  }
  std::stable_sort(views.begin(), views.end(), [](const NodeView& a, const NodeView& b) {
    return std::make_pair(a.node_rank < 0, a.node_rank) < std::make_pair(b.node_rank < 0, b.node_rank);
  });
  return views;
}

}  // namespace mtrun::rendezvous
