#include "page/state_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "base/version.h"

namespace mtrun::page {
namespace {

using nlohmann::json;
using rendezvous::JobView;
using rendezvous::NodeView;
using rendezvous::WatchedNode;
using rendezvous::WatchedState;
using rendezvous::WorkerUse;

constexpr size_t kMaxStragglers = 10;

json OrNull(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }
json Known(int64_t value) { return value < 0 ? json(nullptr) : json(value); }
json KnownTime(Duration value) { return value <= Duration::zero() ? json(nullptr) : json(ToSeconds(value)); }

/// Returns the colour of a state: "good" is a member, "wait" can become one, "bad" should be one but is not.
const char* LevelOf(const std::string& state) {
  if (absl::StrContains(state, "away") || absl::StrContains(state, "expected")) return "bad";
  if (absl::StartsWith(state, "member") || state == "finished" || state == "ended") return "good";
  return "wait";
}

/// Returns a worker's own time per step; the total is the same for all workers, because they run in lockstep.
std::optional<Duration> OwnTime(const WorkerUse& worker) {
  if (worker.step_time <= Duration::zero()) return std::nullopt;
  return std::max(Duration::zero(), worker.step_time - worker.exchange_wait);
}

json WorkerJson(const std::string& job, const std::string& node, const WorkerUse& worker,
                const History& history) {
  return {{"rank", Known(worker.rank)},
          {"local_rank", worker.local_rank},
          {"pid", worker.pid},
          {"step", Known(worker.step)},
          {"step_s", KnownTime(worker.step_time)},
          {"data_wait_s", KnownTime(worker.data_wait)},
          {"exchange_wait_s", KnownTime(worker.exchange_wait)},
          {"cpus_busy", OrNull(history.BusyOf(job, node, worker.pid))},
          {"cpu_s", ToSeconds(worker.cpu)},
          {"memory_bytes", worker.memory},
          {"loss", OrNull(worker.loss)},
          {"learning_rate", OrNull(worker.learning_rate)},
          {"quiet_s", worker.step < 0 ? json(nullptr) : json(ToSeconds(worker.quiet))}};
}

json GpuJson(const rendezvous::GpuUse& gpu) {
  return {{"name", gpu.name},
          {"busy_percent", Known(gpu.busy_percent)},
          {"memory_bytes", gpu.memory},
          {"memory_total_bytes", gpu.memory_total},
          {"temperature_c", Known(gpu.temperature)}};
}

json NodeJson(const NodeView& node) {
  json made = {{"id", node.node_id},
               {"host", node.host.empty() ? node.node_id : node.host},
               {"address", node.address},
               {"state", node.state},
               {"level", LevelOf(node.state)},
               {"node_rank", Known(node.node_rank)},
               {"first_rank", Known(node.first_rank)},
               {"workers", node.workers},
               {"silent_s", ToSeconds(node.silent_for)},
               {"main_loop_age_s", ToSeconds(node.main_loop_age)},
               {"note", node.note},
               {"ranks", json::array()},
               {"gpus", json::array()}};
  for (const char* unknown : {"cpus_busy", "cpus", "machine_cpus", "memory_bytes", "memory_total_bytes"})
    made[unknown] = nullptr;
  return made;
}

void AddUse(const std::string& job, const WatchedNode& node, const History& history, json* made) {
  json& to = *made;
  to["cpus_busy"] = OrNull(history.BusyOf(job, node.node_id));
  to["cpus"] = node.use.cpus;
  to["machine_cpus"] = node.use.machine_cpus;
  to["memory_bytes"] = node.use.memory;
  to["memory_total_bytes"] = node.use.memory_total;
  for (const WorkerUse& worker : node.use.workers)
    to["ranks"].push_back(WorkerJson(job, node.node_id, worker, history));
  for (const rendezvous::GpuUse& gpu : node.use.gpus) to["gpus"].push_back(GpuJson(gpu));
}

/// Ranks workers by their own time per step, slowest first, with the median for comparison.
json Stragglers(const std::vector<const WatchedNode*>& nodes) {
  struct Slow {
    Duration own;
    const WorkerUse* worker;
    const WatchedNode* node;
  };
  std::vector<Slow> all;
  for (const WatchedNode* node : nodes) {
    for (const WorkerUse& worker : node->use.workers) {
      if (const auto own = OwnTime(worker); own && worker.rank >= 0) all.push_back({*own, &worker, node});
    }
  }
  std::sort(all.begin(), all.end(), [](const Slow& a, const Slow& b) { return a.own > b.own; });
  json made = json::array();
  if (all.size() < 2) return made;
  const double median = ToSeconds(all[all.size() / 2].own);
  for (size_t i = 0; i < std::min(all.size(), kMaxStragglers); ++i) {
    made.push_back({{"rank", all[i].worker->rank},
                    {"node", all[i].node->node_id},
                    {"own_step_s", ToSeconds(all[i].own)},
                    {"times_median", median > 0 ? json(ToSeconds(all[i].own) / median) : json(nullptr)}});
  }
  return made;
}

/// Adds how far the run is, and rank 0's values of its steps, because a step has one of each.
void AddRun(const WorkerUse* first, const std::optional<int64_t>& step,
            const std::optional<double>& step_seconds, json* made) {
  json& to = *made;
  for (const char* unknown :
       {"loss", "learning_rate", "accuracy", "epoch", "epochs", "total_steps", "run", "left_s"})
    to[unknown] = nullptr;
  if (first == nullptr) return;
  to["loss"] = OrNull(first->loss);
  to["learning_rate"] = OrNull(first->learning_rate);
  to["accuracy"] = OrNull(first->accuracy);
  for (const auto& [name, value] :
       {std::pair("epoch", first->epoch), {"epochs", first->epochs}, {"total_steps", first->total_steps}})
    if (value > 0) to[name] = value;
  if (!first->run.empty()) to["run"] = first->run;
  if (first->total_steps > 0 && step && step_seconds)
    to["left_s"] = static_cast<double>(std::max<int64_t>(0, first->total_steps - *step)) * *step_seconds;
}

void AddSteps(const std::vector<const WatchedNode*>& nodes, json* made) {
  std::optional<int64_t> step, samples;
  const WorkerUse* first = nullptr;
  std::vector<Duration> times;
  for (const WatchedNode* node : nodes) {
    for (const WorkerUse& worker : node->use.workers) {
      if (worker.rank < 0) continue;
      if (worker.step >= 0) step = std::max(step.value_or(0), worker.step);
      if (worker.samples >= 0) samples = std::max(samples.value_or(0), worker.samples);
      if (worker.step_time > Duration::zero()) times.push_back(worker.step_time);
      if (worker.rank == 0) first = &worker;
    }
  }
  std::sort(times.begin(), times.end());
  (*made)["step"] = step ? json(*step) : json(nullptr);
  (*made)["samples"] = samples ? json(*samples) : json(nullptr);
  const std::optional<double> step_seconds =
      times.empty() ? std::nullopt : std::optional(ToSeconds(times[times.size() / 2]));
  (*made)["step_s"] = OrNull(step_seconds);
  AddRun(first, step, step_seconds, made);
}

json GoneJson(const GoneNode& gone, TimePoint now) {
  json made = NodeJson(gone.last);
  made["state"] = gone.left() ? "left" : "lost";
  made["level"] = gone.left() ? "wait" : "bad";
  made["node_rank"] = made["first_rank"] = nullptr;
  made["gone_for_s"] = ToSeconds(now - gone.at);
  made["note"] = gone.cause ? rendezvous::Describe(*gone.cause) : "";
  return made;
}

json JobJson(const JobView& job, const WatchedState& state, const History& history, TimePoint now) {
  const std::string& id = job.settings.job_id;
  std::vector<const WatchedNode*> used;
  std::map<std::string, const WatchedNode*> by_id;
  for (const WatchedNode& node : state.nodes) {
    if (node.job_id == id) used.push_back(by_id[node.node_id] = &node);
  }
  json made = {{"job", id},
               {"phase", job.phase},
               {"since_s", ToSeconds(job.phase_age)},
               {"generation", job.generation.number},
               {"last_change", job.reason},
               {"restarts", job.restart_count},
               {"max_restarts", job.settings.max_restarts},
               {"min_nodes", job.settings.min_nodes},
               {"max_nodes", job.settings.max_nodes},
               {"may_regroup", job.authority},
               {"ended_for_s", nullptr},
               {"samples_per_s", OrNull(history.RateOf(id))},
               {"stragglers", Stragglers(used)},
               {"nodes", json::array()},
               {"events", json::array()}};
  int64_t world = 0;
  for (const NodeView& node : job.nodes) {
    if (node.first_rank >= 0) world += node.workers;
    json& to = made["nodes"].emplace_back(NodeJson(node));
    if (const auto use = by_id.find(node.node_id); use != by_id.end()) AddUse(id, *use->second, history, &to);
  }
  for (const auto& [node_id, gone] : history.GoneOf(id)) made["nodes"].push_back(GoneJson(gone, now));
  made["world_size"] = world;
  AddSteps(used, &made);
  for (const rendezvous::Happening& line : state.happenings) {
    if (line.job_id != id) continue;
    made["events"].push_back(
        {{"number", line.number}, {"time_ms", line.at_ns / 1000000}, {"text", line.text}});
  }
  return made;
}

}  // namespace

json StateJson(const WatchedState& state, const History& history, TimePoint now) {
  json jobs = json::array();
  for (const JobView& job : state.status.jobs) jobs.push_back(JobJson(job, state, history, now));
  for (const auto& [job, age] : state.ended) {
    jobs.push_back(JobJson(job, state, history, now));
    jobs.back()["ended_for_s"] = ToSeconds(age);
  }
  return {{"version", Version()},
          {"answers", true},
          {"why", ""},
          {"uptime_s", ToSeconds(state.status.uptime)},
          {"jobs", jobs}};
}

json SilenceJson(const std::string& why) {
  return {{"version", Version()},
          {"answers", false},
          {"why", why},
          {"uptime_s", nullptr},
          {"jobs", json::array()}};
}

}  // namespace mtrun::page
