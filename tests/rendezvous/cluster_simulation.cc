#include "tests/rendezvous/cluster_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/job/eviction.h"

namespace mtrun::rendezvous {

ClusterSimulation::ClusterSimulation(JobSettings settings, Duration recovery_window, bool host_begins,
                                     uint64_t run)
    : settings_(settings),
      machine_(settings, JobMachine::Options{6 + run, TimePoint(), recovery_window, host_begins}),
      checker_(settings) {}

std::vector<std::string> ClusterSimulation::Step(const Event& event) {
  const std::vector<Effect> effects = machine_.Step(event, now_);
  if (auto broken = checker_.Observe(event, effects, machine_, now_); broken && !broken_) {
    broken_ = absl::StrCat(*broken, " (after: ", Describe(event), ")\n", machine_.Describe(now_));
  }
  std::vector<std::string> lines;
  for (const Effect& effect : effects) {
    lines.push_back(Describe(effect));
    if (const auto* close = std::get_if<CloseSession>(&effect)) connected_.erase(close->node_id);
    const auto* send = std::get_if<Send>(&effect);
    const auto* assigned = send != nullptr ? std::get_if<Assigned>(&send->event) : nullptr;
    if (assigned != nullptr) assignments_[send->node_id] = assigned->assignment();
  }
  return lines;
}

std::vector<std::string> ClusterSimulation::Open(const std::string& node, Generation seen, int seen_restarts,
                                                 int seen_refunds, std::optional<Assignment> last) {
  connected_.insert(node);
  StreamOpened opened{settings_, seen, seen_restarts, seen_refunds, std::move(last)};
  const auto assigned = assignments_.find(node);
  if (assigned != assignments_.end()) opened.incarnation = assigned->second.incarnation;
  if (opened.last) opened.incarnation = opened.last->incarnation;
  std::vector<std::string> lines = Step(Event{node, std::move(opened)});
  if (ordinary_) Beat(node);
  return lines;
}

std::vector<std::string> ClusterSimulation::OpenWith(const std::string& node, const JobSettings& settings) {
  connected_.insert(node);
  return Step(Event{node, StreamOpened{settings, {}, 0}});
}

std::vector<std::string> ClusterSimulation::Close(const std::string& node, const std::string& why) {
  connected_.erase(node);
  return Step(Event{node, StreamClosed{{why}}});
}

std::vector<std::string> ClusterSimulation::Beat(const std::string& node, Duration main_loop_age) {
  const auto assigned = assignments_.find(node);
  const Generation knows = assigned != assignments_.end() ? assigned->second.generation : Generation{};
  return Step(Event{node, Heartbeat{.main_loop_age = main_loop_age, .knows = knows, .ordinary = ordinary_}});
}

std::vector<std::string> ClusterSimulation::Say(const std::string& node, AgentEvent event,
                                                std::optional<Assignment> held) {
  const auto assigned = assignments_.find(node);
  const Generation seen = assigned != assignments_.end() ? assigned->second.generation : Generation{};
  if (auto* offer = std::get_if<OfferSent>(&event)) offer->seen = seen;
  return Step(Event{node, AgentSaid{std::move(event), std::move(held)}});
}

Offer ClusterSimulation::MakeOffer(const std::string& node) const {
  Offer offer;
  offer.node_id = node;
  offer.host = node.substr(0, node.find('/'));  // "node1/b": a second agent on node1
  offer.address = absl::StrCat(
      "10.0.0.", offer.host.substr(std::min(offer.host.find_first_of("0123456789"), offer.host.size())));
  offer.master_port = 40000;
  if (ordinary_) offer.presence_port = 50000;
  return offer;
}

std::vector<std::string> ClusterSimulation::OfferFrom(const std::string& node, int workers,
                                                      std::optional<int> node_rank, bool ends_step,
                                                      bool leaves) {
  Offer offer = MakeOffer(node);
  offer.leaves = leaves;
  offer.ends_step = ends_step;
  offer.workers = workers;
  offer.node_rank = node_rank;
  return Say(node, OfferSent{offer});
}

std::vector<std::string> ClusterSimulation::StaleOfferFrom(const std::string& node) {
  return Step(Event{node, AgentSaid{OfferSent{MakeOffer(node)}, {}}});
}

std::vector<std::string> ClusterSimulation::Fail(const std::string& node, int exit_code, int signal,
                                                 bool early, int64_t failed_at_ns) {
  WorkerFailure failure;
  failure.host = node;
  failure.pid = 100;
  failure.exit_code = exit_code;
  failure.signal = signal;
  failure.log_file = "/logs/0/stderr.log";
  failure.early = early;
  failure.failed_at_ns = failed_at_ns;
  if (const auto assignment = assignments_.find(node); assignment != assignments_.end()) {
    for (const Member& member : assignment->second.members) {
      if (member.node_id == node) failure.rank = member.first_rank;
    }
  }
  return Say(node, WorkerFailed{generation(), failure});
}

std::vector<std::string> ClusterSimulation::Break(const std::string& node, bool unconnected) {
  const auto assigned = assignments_.find(node);
  if (assigned == assignments_.end()) return {};
  return Say(node, CollectivesBroken{assigned->second.generation, 0, "reset by peer", unconnected});
}

std::vector<std::string> ClusterSimulation::Control(ControlQuestion question) {
  question.by = {"anna", "login1", 4711, "10.0.0.7:4242"};
  const absl::StatusOr<ControlDecision> decision = DecideControl(question, machine_, now_);
  if (!decision.ok()) return {absl::StrCat("refused: ", decision.status().message())};
  return Step(Event{"", decision->event});
}

std::vector<std::string> ClusterSimulation::Evict(const std::string& name) {
  const absl::StatusOr<Eviction> eviction = ChooseMember(machine_, name, now_);
  if (!eviction.ok()) return {absl::StrCat("refused: ", eviction.status().message())};
  return Step(Event{"", EvictionEvent(*eviction)});
}

std::vector<std::string> ClusterSimulation::Finish(const std::string& node, bool final) {
  return Say(node, WorkersFinished{generation(), final});
}

std::vector<std::string> ClusterSimulation::Leave(const std::string& node) {
  return Say(node, Leaving{"SIGTERM"});
}

std::vector<std::string> ClusterSimulation::Wait(const std::string& node, const std::string& key) {
  return Say(node, StoreRead{generation(), next_id_++, {key}, true});
}

std::vector<std::string> ClusterSimulation::Set(const std::string& node, const std::string& key,
                                                const std::string& value) {
  return Say(node, StoreSet{generation(), key, value});
}

std::vector<std::string> ClusterSimulation::Advance(Duration duration) {
  const TimePoint end = now_ + duration;
  const Duration beat_every = settings_.heartbeat_interval;
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  while (now_ < end) {
    const TimePoint next_beat = TimePoint((now_.time_since_epoch() / beat_every + 1) * beat_every);
    const auto due = machine_.NextDeadline();
    now_ = std::min(end, next_beat);
    if (due && *due < now_) now_ = std::max(*due, TimePoint());
    if (now_ == next_beat) {
      for (const std::string& node : std::set<std::string>(connected_)) {
        if (!silent_.contains(node)) add(Beat(node));
      }
    }
    if (const auto deadline = machine_.NextDeadline(); deadline && *deadline <= now_)
      add(Step(Event{"", Tick{}}));
  }
  return lines;
}

std::vector<std::string> ClusterSimulation::TickAtDeadline() {
  const auto due = machine_.NextDeadline();
  if (!due) return {};
  now_ = std::max(now_, *due);
  return Step(Event{"", Tick{}});
}

std::vector<std::string> ClusterSimulation::Stall(Duration duration) {
  now_ += duration;
  checker_.Excuse(duration + settings_.heartbeat_interval);
  return Step(Event{"", Tick{}});
}

}  // namespace mtrun::rendezvous
