#include "tests/launcher/job_simulation.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMostTrace = 400;

}  // namespace

JobSimulation::JobSimulation(const Setup& setup) : setup_(setup), random_(setup.seed) {
  settings_.job_id = "job";
  settings_.min_nodes = setup.min_nodes;
  settings_.max_nodes = setup.max_nodes;
  settings_.max_restarts = 1000;
  settings_.last_call = milliseconds(100);
  settings_.fence_timeout = seconds(2);
  for (int i = 0; setup.services > 1 && i < setup.services; ++i)
    settings_.endpoints.push_back(absl::StrCat("service", i));
  agents_.resize(static_cast<size_t>(setup.nodes));
  services_.resize(static_cast<size_t>(setup.services));
  for (size_t i = 0; i < agents_.size(); ++i) agents_[i].node = static_cast<int>(i);
}

// ---- the world ----

void JobSimulation::At(Duration delay, std::function<void()> act) {
  due_.push(Due{now_ + delay, ++order_, std::make_shared<std::function<void()>>(std::move(act))});
}

void JobSimulation::RunUntil(TimePoint end) {
  while (!broken_ && !due_.empty() && due_.top().when <= end) {
    const Due due = due_.top();
    due_.pop();
    now_ = due.when;
    (*due.act)();
    Check();
  }
  now_ = end;
}

std::optional<std::string> JobSimulation::Run() {
  for (size_t i = 0; i < services_.size(); ++i) BootService(i);
  for (size_t i = 0; i < agents_.size(); ++i) At(Delay(300), [this, i] { Boot(i); });
  for (int i = 0; i < setup_.faults && !broken_; ++i) {
    RunUntil(now_ + Delay(1500));
    Fault();
  }
  RunUntil(now_ + Delay(2000));
  Mend();
  RunUntil(now_ + seconds(15));
  if (broken_) return broken_;
  if (const std::string why = CheckFormed(); !why.empty()) return absl::StrCat("not formed again: ", why);
  for (size_t i = 0; i < agents_.size(); ++i) {
    for (int w = 0; w < setup_.workers; ++w) {
      At(Delay(200), [this, i, w] {
        if (!agents_[i].workers.empty()) Say(i, w, channel::Done{1});
      });
      At(milliseconds(300) + Delay(200), [this, i, w] { EndWorker(i, w, 0, 0); });
    }
  }
  RunUntil(now_ + seconds(4));
  for (const Agent& agent : agents_) {
    if (agent.incarnation != 0 && !broken_)
      Broken(absl::StrCat(agent.node_id, " is still there after the end"));
  }
  return broken_;
}

void JobSimulation::Write(const std::string& text) {
  trace_.push_back(absl::StrFormat("%8.3f %s", ToSeconds(now_ - TimePoint()), text));
  if (trace_.size() > kMostTrace) trace_.pop_front();
}

std::string JobSimulation::Trace() const { return absl::StrJoin(trace_, "\n"); }

void JobSimulation::Broken(std::string what) {
  if (!broken_) broken_ = std::move(what);
}

/// Its workers run, and would commit a step that is whole.
bool JobSimulation::MayCommit(const Agent& agent) const {
  if (agent.incarnation == 0 || !agent.core->assignment() || now_ >= agent.lease_ends) return false;
  const AgentCore::Phase phase = agent.core->phase();
  return phase == AgentCore::Phase::kRunning || phase == AgentCore::Phase::kFinished;
}

/// At most one generation has all its members running it with a lease; only such a one can commit steps. (No
/// service can know of one that was known only to services that died and to nodes that it does not hear.)
void JobSimulation::Check() {
  std::map<rendezvous::Generation, size_t> running;
  std::set<rendezvous::Generation> whole;
  for (const Agent& agent : agents_) {
    if (!MayCommit(agent)) continue;
    const rendezvous::Assignment& assignment = *agent.core->assignment();
    if (++running[assignment.generation] == assignment.members.size()) whole.insert(assignment.generation);
  }
  if (whole.size() < 2) return;
  const rendezvous::Generation old = *whole.begin(), young = *whole.rbegin();
  if (forgotten_.contains(old) && !informed_[young].contains(old)) return;
  Broken(
      absl::StrCat("two whole generations at once: ", channel::ToText(old), " and ", channel::ToText(young)));
}

std::string JobSimulation::CheckFormed() const {
  std::set<rendezvous::Generation> generations;
  int members = 0;
  for (const Agent& agent : agents_) {
    if (agent.incarnation == 0) return absl::StrCat("no agent on node ", agent.node);
    if (agent.core->phase() == AgentCore::Phase::kRunning) {
      ++members;
      generations.insert(agent.core->assignment()->generation);
    } else if (agent.core->phase() != AgentCore::Phase::kJoining &&
               agent.core->phase() !=
                   AgentCore::Phase::kRegrouping) {  // a spare, with or without old workers
      return absl::StrCat(agent.node_id, " is ", agent.core->Describe());
    }
  }
  const int wanted = std::min(setup_.nodes, setup_.max_nodes);
  if (members != wanted) return absl::StrCat(members, " of ", wanted, " nodes run");
  if (generations.size() != 1) return absl::StrCat(generations.size(), " generations run");
  for (const Agent& agent : agents_) {
    if (agent.core->phase() != AgentCore::Phase::kRunning) continue;
    const std::string state = agent.core->Describe();
    const bool given_up = state.find("given up") != std::string::npos;
    if (!given_up && state.find("warm") != std::string::npos)
      return absl::StrCat(agent.node_id, " has workers without a rank: ", state);
  }
  return "";
}

void JobSimulation::Freeze(size_t node) {
  agents_[node].frozen = true;
  At(Delay(3000), [this, node, incarnation = agents_[node].incarnation] {
    if (agents_[node].incarnation != incarnation) return;
    agents_[node].frozen = false;
    for (const auto& act : std::exchange(agents_[node].backlog, {})) At(Duration(1), act);
  });
}

void JobSimulation::PullCable(size_t node) {
  for (auto& [id, connection] : connections_) {
    if (connection.agent == node || connection.service == node) {
      if (connection.agent != connection.service) connection.open = false;  // in silence
    }
  }
  At(Delay(3500), [this, node] { cut_.erase(node); });
}

void JobSimulation::Fault() {
  if (broken_) return;
  const size_t node = random_() % agents_.size();
  Agent& agent = agents_[node];
  const size_t kind = random_() % std::size(kFaults);
  bool fired = agent.incarnation != 0;
  switch (kind) {
    case 0:
      if (fired) Die(node);
      At(Delay(2500), [this, node] { Boot(node); });
      break;
    case 1:
      fired = fired && !agent.frozen;
      if (fired) Freeze(node);
      break;
    case 2:
      fired = cut_.insert(node).second;
      PullCable(node);
      break;
    case 3:
      fired = fired && agent.connection != 0;
      if (fired) Break(agent.connection, true);
      break;
    case 4: {
      const size_t service = random_() % services_.size();
      fired = services_[service].id != 0;
      if (!fired) break;
      KillService(service);
      At(Delay(2500), [this, service] { BootService(service); });
      break;
    }
    case 5:
      fired = fired && !agent.workers.empty();
      if (fired) EndWorker(node, static_cast<int>(random_() % agent.workers.size()), 0, SIGKILL);
      break;
    case 6:
      fired = fired && !agent.workers.empty() && agent.core->assignment();
      if (fired) {
        Say(node, static_cast<int>(random_() % agent.workers.size()),
            channel::Broken{agent.core->assignment()->generation, "aborted"});
      }
      break;
    default:
      if (fired) Awake(node, agent.incarnation, [this, node] { Feed(node, SignalReceived{SIGTERM}); });
      At(Delay(2500), [this, node] { Boot(node); });
      break;
  }
  if (!fired) return;
  ++fired_[kFaults[kind]];
  Note("FAULT ", kFaults[kind], " node ", node);
}

void JobSimulation::Mend() {
  Note("MEND");
  calm_ = true;
  cut_.clear();
  for (size_t i = 0; i < services_.size(); ++i) BootService(i);
  for (size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].frozen = false;
    for (const auto& act : std::exchange(agents_[i].backlog, {})) At(Duration(1), act);
    // One that is on its way out is replaced when it is gone.
    for (int second = 0; second < 12; ++second) At(seconds(second), [this, i] { Boot(i); });
  }
}

// ---- streams ----

void JobSimulation::Up(uint64_t id, std::function<void()> deliver) {
  Connection& connection = connections_.at(id);
  connection.last_up = std::max(connection.last_up, now_ + Delay(20));
  At(connection.last_up - now_, [this, id, deliver = std::move(deliver)] {
    const Connection& c = connections_.at(id);
    if (c.open && services_[c.service].id == c.service_id) deliver();
  });
}

void JobSimulation::Down(uint64_t id, std::function<void()> deliver) {
  Connection& connection = connections_.at(id);
  connection.last_down = std::max(connection.last_down, now_ + Delay(20));
  At(connection.last_down - now_, [this, id, deliver = std::move(deliver)] {
    const Connection& c = connections_.at(id);
    if (c.open) Awake(c.agent, c.incarnation, deliver);
  });
}

void JobSimulation::Break(uint64_t id, bool service_notices) {
  Connection& connection = connections_.at(id);
  if (!connection.open) return;
  connection.open = false;
  Awake(connection.agent, connection.incarnation, [this, id, agent = connection.agent] { Lost(agent, id); });
  if (!service_notices || services_[connection.service].id != connection.service_id) return;
  At(Delay(5), [this, id] {
    const Connection& c = connections_.at(id);
    Service& service = services_[c.service];
    if (service.id != c.service_id) return;
    for (auto& [node_id, session] : service.sessions) {
      if (session.connection != id) continue;
      session.connection = 0;
      return StepService(c.service, {std::string(node_id), rendezvous::StreamClosed{"connection reset"}});
    }
  });
}

}  // namespace mtrun::launcher
