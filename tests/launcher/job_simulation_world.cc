// The simulated job: its time, its phases, and the streams between agents and services.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/launcher/job_simulation.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxTrace = 400;

}  // namespace

JobSimulation::JobSimulation(const Setup& setup)
    : setup_(setup),
      random_(setup.seed),
      clocks_(static_cast<size_t>(std::max(setup.nodes, setup.services)), setup.drift_ppm, random_) {
  rendezvous::JobSettings settings;
  settings.min_nodes = setup.min_nodes;
  settings.max_nodes = setup.max_nodes;
  settings.max_restarts = 1000;
  settings.last_call = milliseconds(100);
  settings.fence_timeout = setup.lease;
  settings.takeover_majority = setup.majority;
  settings.ordinary_interval = setup.ordinary_interval;
  for (int i = 0; setup.services > 1 && i < setup.services; ++i)
    settings.endpoints.push_back(absl::StrCat("service", i));
  for (int job = 0; job < setup.jobs; ++job) {
    settings.job_id = absl::StrCat("job", job);
    settings_.push_back(settings);
  }
  const auto nodes = static_cast<size_t>(setup.nodes);
  agents_.resize(nodes * settings_.size());
  services_.resize(setup.hosted ? agents_.size() : static_cast<size_t>(setup.services));
  for (size_t i = 0; i < agents_.size(); ++i) agents_[i].node = i % nodes, agents_[i].job = i / nodes;
}

// ---- time ----

void JobSimulation::At(Duration delay, std::function<void()> act) {
  due_.push_back(Due{now_ + delay, ++order_, std::move(act)});
  std::push_heap(due_.begin(), due_.end());
}

void JobSimulation::RunUntil(TimePoint end) {
  while (!broken_ && !due_.empty() && due_.front().when <= end) {
    std::pop_heap(due_.begin(), due_.end());
    const Due due = std::move(due_.back());
    due_.pop_back();
    now_ = due.when;
    due.act();
    Check();
  }
  now_ = end;
}

Duration JobSimulation::UntilOn(size_t node, TimePoint shown) const {
  return std::max(Duration(1), clocks_.When(node, shown) - now_);
}

std::optional<std::string> JobSimulation::Run() {
  for (size_t i = 0; i < services_.size(); ++i) BootService(i);
  for (size_t i = 0; i < agents_.size(); ++i) At(Delay(300), [this, i] { Boot(i); });
  Disturb();
  for (int run = 1; run <= setup_.runs && !broken_; ++run) {
    Calm();
    if (!broken_) Finish();
  }
  return broken_;
}

void JobSimulation::Disturb() {
  for (int i = 0; i < setup_.faults && !broken_; ++i) {
    RunUntil(now_ + Delay(1500));
    Fault();
  }
  RunUntil(now_ + Delay(2000));
}

void JobSimulation::Calm() {
  Mend();
  calm_ = true;
  RunUntil(now_ + seconds(20));
  calm_ = false;
  for (size_t job = 0; job < settings_.size() && !broken_; ++job) {
    std::string why = CheckFormed(job);
    if (why.empty()) why = CheckWarm(job);
    if (!why.empty()) Broken(absl::StrCat("not formed again: ", why));
  }
}

/// Finishes the workers' tasks. Agents of the next run start where those of this one have ended.
void JobSimulation::Finish() {
  Note("FINISH");
  finishing_ = run_;
  FinishSome();
  // If the service ends with the job, a node that was away learns of the end from the next service, if that
  // can know it. The endpoint's own host does not know if the job ended at another service while it was away.
  if (setup_.runs > 1 && OneIn(2)) {
    const size_t late = setup_.hosted ? 1 + random_() % (agents_.size() - 1) : random_() % agents_.size();
    const bool forgotten = setup_.forget_runs && setup_.services > 1 && run_ < setup_.runs;
    forgotten ? HoldBack(late) : Freeze(late);
  }
  for (int i = 0; i < setup_.late_faults && !broken_; ++i) {
    RunUntil(now_ + Delay(600));
    Fault();
  }
  if (setup_.lose_one) LoseOne();
  if (setup_.late_faults > 0) Mend();
  // A worker that ignores signals may have to be killed after a node has been away.
  RunUntil(now_ + (setup_.late_faults > 0 || setup_.runs > 1 ? seconds(30) : seconds(12)));
  CheckEnded();
}

/// Cuts off a node that hosts no service; the others keep the job.
void JobSimulation::LoseOne() {
  const size_t last = static_cast<size_t>(setup_.nodes) - 1;
  const bool served = last >= services_.size() || (setup_.hosted && last > 0);
  if (served && setup_.nodes > setup_.min_nodes) alone_ = last;
}

/// Isolates the node, once its workers are done, until another run has certainly begun: before that, it would
/// continue its own run at services that remember nothing.
void JobSimulation::HoldBack(size_t index) {
  if (setup_.nodes <= setup_.min_nodes) return;  // no other run begins without it
  At(milliseconds(agents_[index].frozen ? 100 : 1), [this, index, incarnation = agents_[index].incarnation] {
    Agent& agent = agents_[index];
    if (agent.incarnation == 0 || agent.incarnation != incarnation) return;
    agent.frozen = agent.core->phase() == AgentCore::Phase::kFinished && !NextRunIsCertain(agent);
    if (agent.frozen || agent.core->phase() != AgentCore::Phase::kFinished) return HoldBack(index);
    for (const auto& act : std::exchange(agent.backlog, {})) At(Duration(1), act);
  });
}

bool JobSimulation::NextRunIsCertain(const Agent& agent) const {
  const Formed* last = FindFormed(agent.last_run);
  return std::any_of(services_.begin(), services_.end(), [&](const Service& service) {
    if (service.id == 0) return false;
    const auto job = service.jobs->jobs().find(settings_[agent.job].job_id);
    if (job == service.jobs->jobs().end()) return false;
    const auto place = static_cast<size_t>(&service - services_.data());
    return job->second.Proof(NowOn(place)) != rendezvous::RunProof::kNone &&
           (last == nullptr || job->second.incarnation() != last->incarnation);
  });
}

/// Restarts the services once every reachable node knows the outcome.
void JobSimulation::ForgetRun() {
  const bool awaited = std::any_of(agents_.begin(), agents_.end(), [this](const Agent& agent) {
    return agent.incarnation != 0 && agent.run <= finishing_ && !agent.frozen;
  });
  if (awaited) return;
  for (size_t i = 0; i < services_.size(); ++i) {
    if (services_[i].id == 0) continue;
    KillService(i);
    At(Delay(300), [this, i] { BootService(i); });
  }
}

/// Makes the workers report done in each of their generations.
void JobSimulation::FinishSome() {
  for (size_t i = 0; i < agents_.size(); ++i) {
    for (int w = 0; w < setup_.workers; ++w) {
      Worker* worker = agents_[i].run <= finishing_ ? FindWorker(i, w) : nullptr;
      if (worker == nullptr || worker->in == nullptr || worker->in == worker->done || worker->leaves)
        continue;
      worker->done = worker->in;
      AsWorker(i, w, Delay(200), [this, i, w, generation = worker->in->generation] {
        done_[generation].insert({agents_[i].node_id, w});
        Say(i, w, channel::Done{1, generation});
      });
      // A cooperative worker can stay until it gets a stop message.
      if (!setup_.cooperative || OneIn(2))
        AsWorker(i, w, milliseconds(300) + Delay(200), [this, i, w] { EndWorker(i, w, 0, 0); });
    }
  }
  At(milliseconds(100), [this, finishing = finishing_] {
    if (finishing == finishing_) FinishSome();
  });
}

void JobSimulation::Write(const std::string& text) {
  trace_.push_back(absl::StrFormat("%8.3f %s", ToSeconds(now_ - TimePoint()), text));
  if (trace_.size() > kMaxTrace) trace_.pop_front();
}

std::string JobSimulation::Trace() const { return absl::StrJoin(trace_, "\n"); }

// ---- streams ----

/// Returns one direction of a connection in its current state: TCP resends data lost in an outage some time
/// after the outage ends, and later data waits for it.
JobSimulation::Way& JobSimulation::Pass(uint64_t id, To to) {
  Connection& connection = connections_.at(id);
  const size_t node = agents_[connection.agent].node, service = connection.service;
  Way& way = to == To::kService ? connection.up : connection.down;
  const TimePoint out = to == To::kService ? network_.Until(node, service) : network_.Until(service, node);
  if (out > now_ && out != way.out) {
    way.out = out;
    way.resent = out + Delay(OneIn(2) ? 2000 : 20);
  }
  return way;
}

void JobSimulation::Carry(uint64_t id, To to, std::function<void()> deliver) {
  Way& way = Pass(id, to);
  way.last = std::max({way.last, now_, way.resent}) + Delay(20);
  At(way.last - now_,
     [this, id, to, deliver = std::move(deliver)]() mutable { Arrive(id, to, std::move(deliver)); });
}

void JobSimulation::Arrive(uint64_t id, To to, std::function<void()> deliver) {
  Way& way = Pass(id, to);
  if (way.dead) return;
  if (way.resent > now_) {
    way.last = std::max(way.last, way.resent);
    return At(way.resent - now_,
              [this, id, to, deliver = std::move(deliver)]() mutable { Arrive(id, to, std::move(deliver)); });
  }
  const Connection& c = connections_.at(id);
  if (to == To::kAgent && c.open) return Awake(c.agent, c.incarnation, std::move(deliver));
  if (to == To::kService && (c.open || c.given_up)) AsService(c.service, c.service_id, std::move(deliver));
}

/// Closes the connection, at one end or on the way; the other end is notified if it is reachable.
void JobSimulation::End(uint64_t id, By by) {
  Connection& connection = connections_.at(id);
  if (!connection.open) return;
  connection.open = false;
  connection.given_up = by == By::kAgent;
  const size_t agent = connection.agent, node = agents_[agent].node, service = connection.service;
  const auto lost = [this, id, agent, incarnation = connection.incarnation] {
    Awake(agent, incarnation, [this, id, agent] { Lost(agent, id); });
  };
  if (by == By::kAgent || (!connection.down.dead && network_.Passes(service, node, now_))) {
    lost();
  } else if (!connection.down.dead) {
    At(network_.Until(service, node) - now_, lost);
  }
  if (by == By::kAgent) return Up(id, [this, id] { OnStreamEnded(id); });
  if (by == By::kService || connection.up.dead) return;
  At(std::max(Duration::zero(), network_.Until(node, service) - now_) + Delay(5),
     [this, id, service, service_id = connection.service_id] {
       AsService(service, service_id, [this, id] { OnStreamEnded(id); });
     });
}

void JobSimulation::OnStreamEnded(uint64_t id) {
  const Connection& connection = connections_.at(id);
  Service& service = services_[connection.service];
  if (service.id != connection.service_id) return;
  for (auto& [node_id, session] : service.sessions) {
    if (session.connection != id) continue;
    session.connection = 0;
    return StepService(connection.service, settings_[agents_[connection.agent].job].job_id,
                       {std::string(node_id), rendezvous::StreamClosed{{"connection reset"}}});
  }
}

}  // namespace mtrun::launcher
