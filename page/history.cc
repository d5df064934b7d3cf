#include "page/history.h"

#include <algorithm>
#include <set>

namespace mtrun::page {
namespace {

using rendezvous::NodeUse;
using rendezvous::WatchedNode;
using rendezvous::WatchedState;

std::optional<double> Busy(Duration before, Duration after, Duration passed) {
  if (after < before || passed <= Duration::zero()) return std::nullopt;
  return ToSeconds(after - before) / ToSeconds(passed);
}

/// Returns why the node is gone, from the service's last message about it; empty if there is none.
std::optional<rendezvous::Cause> CauseOf(const std::string& job, const std::string& node_id,
                                         const WatchedState& state) {
  const auto line = std::find_if(state.happenings.rbegin(), state.happenings.rend(),
                                 [&](const rendezvous::Happening& each) {
                                   return each.job_id == job && each.cause && each.cause->node_id == node_id;
                                 });
  return line == state.happenings.rend() ? std::nullopt : line->cause;
}

}  // namespace

void History::OnState(const WatchedState& state, TimePoint now) {
  std::set<NodeKey> heard;
  for (const WatchedNode& node : state.nodes) {
    heard.insert({node.job_id, node.node_id});
    OnUse(node);
  }
  std::erase_if(uses_, [&](const auto& entry) { return !heard.contains(entry.first); });
  std::set<std::string> present;
  for (const rendezvous::JobView& job : state.status.jobs) {
    present.insert(job.settings.job_id);
    OnJob(job, state, now);
  }
  std::erase_if(jobs_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void History::OnUse(const WatchedNode& node) {
  Node& known = uses_[{node.job_id, node.node_id}];
  if (node.use.asked == known.last.asked) return;  // already processed
  const Duration passed = node.use.measured - known.last.measured;
  if (known.last.measured > Duration::zero()) {
    known.busy = Busy(known.last.cpu, node.use.cpu, passed);
    known.workers.clear();
    for (const rendezvous::WorkerUse& worker : node.use.workers) {
      for (const rendezvous::WorkerUse& before : known.last.workers) {
        const auto busy = Busy(before.cpu, worker.cpu, passed);
        if (before.pid == worker.pid && busy) known.workers[worker.pid] = *busy;
      }
    }
  }
  known.last = node.use;
  OnSamples(node);
}

void History::OnSamples(const WatchedNode& node) {
  for (const rendezvous::WorkerUse& worker : node.use.workers) {
    if (worker.rank != 0 || worker.samples < 0) continue;
    Job& job = jobs_[node.job_id];
    const Duration at = node.use.measured;
    const bool same = std::exchange(job.counted, node.node_id) == node.node_id;
    if (same && job.samples && worker.samples >= job.samples->second && at > job.samples->first) {
      job.rate =
          static_cast<double>(worker.samples - job.samples->second) / ToSeconds(at - job.samples->first);
    } else {
      job.rate.reset();
    }
    job.samples = {at, worker.samples};
  }
}

void History::OnJob(const rendezvous::JobView& view, const WatchedState& state, TimePoint now) {
  Job& job = jobs_[view.settings.job_id];
  std::map<std::string, rendezvous::NodeView> nodes;
  std::set<std::string> arrived;  // addresses of nodes that are present
  for (const rendezvous::NodeView& node : view.nodes) {
    nodes[node.node_id] = node;
    if (!job.nodes.contains(node.node_id)) arrived.insert(node.address);
  }
  for (const auto& [node_id, node] : job.nodes) {
    if (nodes.contains(node_id) || view.phase == "ended") continue;
    job.gone[node_id] = {node, now, CauseOf(view.settings.job_id, node_id, state)};
  }
  job.nodes = std::move(nodes);
  std::erase_if(job.gone, [&](const auto& entry) {
    const auto& [node_id, gone] = entry;
    // A job waits for a lost member while its old generation may still be running there.
    const bool waited_for = view.phase == "forming" && !gone.left() && gone.last.first_rank >= 0;
    return (now - gone.at > kGoneShown && !waited_for) || job.nodes.contains(node_id) ||
           view.phase == "ended" || arrived.contains(gone.last.address);
  });
}

std::optional<double> History::BusyOf(const std::string& job, const std::string& node) const {
  const auto found = uses_.find({job, node});
  return found == uses_.end() ? std::nullopt : found->second.busy;
}

std::optional<double> History::BusyOf(const std::string& job, const std::string& node, int64_t pid) const {
  const auto found = uses_.find({job, node});
  if (found == uses_.end()) return std::nullopt;
  const auto worker = found->second.workers.find(pid);
  return worker == found->second.workers.end() ? std::nullopt : std::optional(worker->second);
}

std::optional<double> History::RateOf(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::nullopt : found->second.rate;
}

std::map<std::string, GoneNode> History::GoneOf(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::map<std::string, GoneNode>() : found->second.gone;
}

}  // namespace mtrun::page
