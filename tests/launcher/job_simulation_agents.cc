// The simulated job: agents and their sessions.
#include "tests/launcher/job_simulation.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

using std::chrono::milliseconds;
using std::chrono::seconds;

void JobSimulation::Boot(size_t index) {
  if (agents_[index].incarnation != 0) return;
  if (setup_.hosted && services_[index].id != 0)  // it ends soon
    return At(milliseconds(100), [this, index] { Boot(index); });
  const size_t node = agents_[index].node, job = agents_[index].job;
  agents_[index] = Agent();
  Agent& agent = agents_[index];
  agent.node = node;
  agent.job = job;
  agent.run = run_;
  agent.incarnation = ++ids_;
  agent.node_id = absl::StrCat("node", node, "-", agent.incarnation);
  AgentConfig config;
  config.offer.node_id = agent.node_id;
  config.offer.host = absl::StrCat("node", node);
  config.offer.address = config.offer.host;
  config.offer.workers = setup_.workers;
  config.offer.presence_port = static_cast<int>(1 + job);
  config.offer.presence_id = agent.incarnation;
  agent.endpoints = settings_[job].endpoints;
  if (agent.endpoints.empty()) agent.endpoints.push_back(setup_.hosted ? kEndpoint : "service0");
  config.endpoint = agent.endpoints.front();
  agent.retries = std::make_unique<rendezvous::RetrySchedule>(seconds(10), Duration::zero());
  if (setup_.hosted) config.offer.service_port = BootHosted(index);
  config.max_restarts = settings_[job].max_restarts;
  config.shutdown_timeout = seconds(1);
  config.fence_timeout = settings_[job].fence_timeout;
  config.warm_up = setup_.warm_up;
  agent.core = std::make_unique<AgentCore>(config, NowOn(node));
  agent.lease_ends = NowOn(node) + config.fence_timeout;
  Note(agent.node_id, " boots");
  ArmAgent(index);
  Connect(index);
}

/// Ends the agent's process and its workers.
void JobSimulation::Die(size_t index, bool lingers) {
  Agent& agent = agents_[index];
  const uint64_t connection = agent.connection;
  const bool sticks = std::any_of(agent.workers.begin(), agent.workers.end(), [](const Worker& worker) {
    return worker.alive && worker.temper == Temper::kSticks;
  });
  if (sticks) leftovers_[agent.incarnation] = now_ + Delay(9000);
  agent.incarnation = agent.alarm = 0;
  died_[agent.node_id] = now_;
  agent.workers.clear();
  agent.unread.clear();
  if (setup_.hosted && !lingers) KillService(index);
  if (connection != 0 && connections_.at(connection).open) {
    // Data already sent still arrives.
    const TimePoint last = std::max(now_, connections_.at(connection).up.last);
    At(last - now_ + Duration(1), [this, connection] { End(connection, By::kAgent); });
  }
}

void JobSimulation::Awake(size_t index, uint64_t incarnation, std::function<void()> act) {
  Agent& agent = agents_[index];
  if (agent.incarnation != incarnation) return;
  if (!agent.frozen) return act();
  agent.backlog.push_back([this, index, incarnation, act = std::move(act)] {
    if (agents_[index].incarnation == incarnation) act();
  });
}

void JobSimulation::Feed(size_t index, const Event& event) {
  Agent& agent = agents_[index];
  if (agent.unread.empty()) return Handle(index, event);
  if (agent.incarnation != 0) agent.unread.push_back(event);
}

void JobSimulation::Arrive(size_t index, const Event& event) {
  Agent& agent = agents_[index];
  if (agent.incarnation == 0 || calm_ || !agent.unread.empty() || !OneIn(12)) return Feed(index, event);
  agent.unread.push_back(event);
  At(Delay(200), [this, index, incarnation = agent.incarnation] {
    Awake(index, incarnation, [this, index, incarnation] {
      std::deque<Event>& unread = agents_[index].unread;
      while (agents_[index].incarnation == incarnation && !unread.empty()) {
        Handle(index, Event(unread.front()));
        if (agents_[index].incarnation == incarnation) unread.pop_front();
      }
    });
  });
}

void JobSimulation::Handle(size_t index, const Event& event) {
  Agent& agent = agents_[index];
  const uint64_t incarnation = agent.incarnation;
  if (incarnation == 0) return;
  const Effects effects = agent.core->Step(event, NowOn(agent.node));
  for (const Effect& effect : effects) {
    if (agents_[index].incarnation == incarnation) Perform(index, effect);
  }
  if (agents_[index].incarnation != incarnation) return;
  if (const auto& assignment = agent.core->assignment()) {
    if (assignment->generation < agent.last_run)
      Broken(absl::StrCat(agent.node_id, " goes back to ", channel::ToText(assignment->generation)));
    agent.last_run = assignment->generation;
  }
  Pump(index);
  ArmAgent(index);
  SetAlarm(index);
}

void JobSimulation::ArmAgent(size_t index) {
  Agent& agent = agents_[index];
  const auto when = agent.core->NextDeadline();
  const uint64_t timer = agent.timer = ++ids_;
  if (!when) return;
  // Some timers are late.
  const Duration late = OneIn(8) ? Delay(30) : Duration::zero();
  At(UntilOn(agent.node, *when) + late, [this, index, timer, incarnation = agent.incarnation] {
    Awake(index, incarnation, [this, index, timer] {
      if (agents_[index].timer == timer) Feed(index, Tick{});
    });
  });
}

void JobSimulation::Retry(size_t index, Duration delay) {
  agents_[index].connecting = true;
  At(delay, [this, index, incarnation = agents_[index].incarnation] {
    Awake(index, incarnation, [this, index] { Connect(index); });
  });
}

void JobSimulation::Connect(size_t index) {
  Agent& agent = agents_[index];
  agent.connecting = false;
  if (agent.connection != 0) return;
  const std::string& endpoint = agent.endpoints[agent.place];
  const size_t place = NodeAt(endpoint);
  if (!ServiceAt(endpoint) || !Reach(agent.node, place)) {
    MoveOn(agent);
    return Retry(index, milliseconds(50) + Delay(400));
  }
  const uint64_t id = agent.connection = ++ids_;
  agent.silent = agent.redirected = false;
  connections_[id] = Connection{index, place, agent.incarnation, services_[place].id};
  agent.end.OpenStream(NowOn(agent.node) - TimePoint());
  agent.heard = now_;
  rendezvous::StreamOpened opened = agent.end.outbox.Opening(settings_[agent.job]);
  opened.silence = agent.end.Silence(NowOn(agent.node) - TimePoint());
  Up(id, [this, id, place, attempt = agent.end.attempt(), welcomed_by = agent.end.welcomed_by(),
          received = agent.end.receiver.Acknowledge(),
          opened] { OnHello(place, id, attempt, opened, welcomed_by, received); });
  if (std::exchange(agent.cut_behind_hello, false) && !calm_)
    CutLink(agent.node, place, now_ + Delay(3500), /*for_good=*/false);
  Beat(index, id);
}

void JobSimulation::Beat(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  if (agent.connection != id) return;
  const Duration lost_after = settings_[agent.job].LostAfter();
  const size_t others = agent.end.welcomed() && setup_.majority ? 1 : 0;
  if (now_ - agent.heard >
      agent.retries->Timeout(agent.end.welcomed(), agent.endpoints.size() + others, lost_after)) {
    agent.silent = true;
    if (!agent.end.welcomed()) agent.retries->AttemptSilent();
    End(id, By::kAgent);
    return Lost(index, id);  // if the other end has disappeared silently
  }
  if (agent.end.welcomed()) SendBeat(index, id);
  At(settings_[agent.job].heartbeat_interval, [this, index, id, incarnation = agent.incarnation] {
    Awake(index, incarnation, [this, index, id] { Beat(index, id); });
  });
}

void JobSimulation::SendBeat(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  Up(id, [this, id, node_id = agent.node_id, place = connections_.at(id).service,
          received = agent.end.receiver.Acknowledge(),
          beat = rendezvous::Heartbeat{.sent = NowOn(agent.node) - TimePoint(),
                                       .knows = agent.end.outbox.known(),
                                       .ordinary = agent.core->ordinary()}] {
    OnBeat(place, id, node_id, beat, received);
  });
}

void JobSimulation::OnLease(size_t index, const rendezvous::Lease& lease) {
  Agent& agent = agents_[index];
  agent.heard = now_;
  Renew(index, agent.end.TakeLease(lease));
}

void JobSimulation::Renew(size_t index, std::optional<Duration> from) {
  if (!from) return;
  Agent& agent = agents_[index];
  agent.lease_ends = TimePoint() + *from + settings_[agent.job].fence_timeout;
  if (agent.leases[0].first != agent.end.outbox.current())
    std::shift_right(agent.leases.begin(), agent.leases.end(), 1);
  agent.leases[0] = {agent.end.outbox.current(), agent.lease_ends};
  SetAlarm(index);
  Arrive(index, LeaseRenewed{agent.lease_ends});
}

void JobSimulation::Pump(size_t index) {
  Agent& agent = agents_[index];
  if (agent.connection == 0 || !agent.end.welcomed()) return;
  const uint64_t id = agent.connection;
  while (const auto next = agent.end.outbox.Next()) {
    Up(id, [this, id, place = connections_.at(id).service, sequence = next->sequence, said = *next->message,
            received = agent.end.receiver.Acknowledge()] { OnUp(place, id, sequence, said, received); });
  }
}

void JobSimulation::OnDown(size_t index, uint64_t id, uint64_t sequence,
                           const rendezvous::ServiceEvent& event, uint64_t acknowledged) {
  Agent& agent = agents_[index];
  if (agent.connection != id || !agent.end.welcomed()) return;
  agent.heard = now_;
  agent.end.outbox.Acknowledge(acknowledged);
  if (agent.end.Take(sequence) != rendezvous::StreamReceiver::Arrival::kNew) return;
  if (!agent.end.outbox.Observe(event)) return;
  if (const auto* assigned = std::get_if<rendezvous::Assigned>(&event)) {
    agent.knows.insert(assigned->assignment().generation);
    OnMembership(agent, assigned->assignment());
    Renew(index, agent.end.FirstLease());
  }
  if (const auto* others = std::get_if<rendezvous::Membership>(&event)) {
    agent.knows.insert(others->generation.assignment().generation);
    OnMembership(agent, others->generation.assignment());
  }
  agent.over |= std::holds_alternative<rendezvous::JobEnded>(event) ||
                std::holds_alternative<rendezvous::Refused>(event);
  if (setup_.trace) Note(agent.node_id, " hears ", rendezvous::Describe(event));
  if (std::holds_alternative<rendezvous::Refused>(event)) CheckRefused(agent);
  if (const auto* elsewhere = std::get_if<rendezvous::Redirect>(&event)) {
    MoveTo(agent, elsewhere->endpoint);
    return End(id, By::kAgent);
  }
  Arrive(index, event);
}

void JobSimulation::Lost(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  if (agent.connection != id) return;
  agent.connection = 0;
  const bool welcomed = agent.end.CloseStream();
  const bool elsewhere = agent.silent || !welcomed;
  if (elsewhere && !agent.redirected) MoveOn(agent);
  if (agent.watch && welcomed) agent.watch->OnDisconnected(NowOn(agent.node), now_ - agent.heard);
  Arrive(index, SessionDisconnected{"lost"});
  if (agents_[index].incarnation != 0 && !agents_[index].over) Retry(index, milliseconds(50));
  MindHost(index);
}

void JobSimulation::Perform(size_t index, const Effect& effect) {
  Agent& agent = agents_[index];
  if (const auto* offer = std::get_if<SendOffer>(&effect)) {
    agent.end.outbox.Add(rendezvous::OfferSent{offer->offer, offer->seen});
  } else if (const auto* send = std::get_if<SendToService>(&effect)) {
    agent.end.outbox.Add(send->event);
    agent.said_leaving |= std::holds_alternative<rendezvous::Leaving>(send->event);
  } else if (const auto* start = std::get_if<StartWorkers>(&effect)) {
    Start(index, *start);
  } else if (const auto* all = std::get_if<SignalWorkers>(&effect)) {
    for (int i = 0; i < static_cast<int>(agent.workers.size()); ++i) SignalOne(index, i, all->signal);
  } else if (const auto* one = std::get_if<SignalWorker>(&effect)) {
    SignalOne(index, one->local_rank, one->signal);
  } else if (const auto* message = std::get_if<SendToWorker>(&effect)) {
    Tell(index, message->local_rank, message->message);
  } else if (std::holds_alternative<CleanUp>(effect)) {
    for (const Worker& worker : agent.workers) {
      if (worker.alive && !worker.doomed) Broken(absl::StrCat(agent.node_id, " does not wait for a worker"));
    }
    agent.workers.clear();
  } else if (const auto* exit = std::get_if<Exit>(&effect)) {
    Note(agent.node_id, " exits");
    Pump(index);
    if (exit->job_ended) NoteEndAtHost(agent, *exit);
    const Service& own = services_[setup_.hosted ? index : 0];
    const bool lingers = setup_.hosted && own.jobs && (exit->job_ended || !own.jobs->InEnded().empty());
    Die(index, lingers);
    if (lingers) Linger(index, own.id);
    if (finishing_ != agent.run || agent.run >= setup_.runs) return;
    run_ = agent.run + 1;
    if (setup_.forget_runs) ForgetRun();
    At(Delay(500), [this, index] { Boot(index); });
  }
}

}  // namespace mtrun::launcher
