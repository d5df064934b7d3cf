// The simulated job: agents, their sessions and their workers.
#include "tests/launcher/job_simulation.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

using std::chrono::milliseconds;
using std::chrono::seconds;

void JobSimulation::Boot(size_t index) {
  Agent& old = agents_[index];
  if (old.incarnation != 0) return;
  const int node = old.node;
  agents_[index] = Agent();
  Agent& agent = agents_[index];
  agent.node = node;
  agent.incarnation = ++ids_;
  agent.node_id = absl::StrCat("node", node, "-", agent.incarnation);
  AgentConfig config;
  config.offer.node_id = agent.node_id;
  config.offer.host = absl::StrCat("node", node);
  config.offer.address = config.offer.host;
  config.offer.workers = setup_.workers;
  config.offer.presence_port = 1;
  config.offer.presence_id = agent.incarnation;
  config.endpoint = "service0";
  config.max_restarts = settings_.max_restarts;
  config.shutdown_timeout = seconds(1);
  config.fence_timeout = settings_.fence_timeout;
  config.warm_up = setup_.warm_up;
  agent.core = std::make_unique<AgentCore>(config, now_);
  Note(agent.node_id, " boots");
  ArmAgent(index);
  Connect(index);
}

/// Its process is gone, and its workers with it.
void JobSimulation::Die(size_t index) {
  Agent& agent = agents_[index];
  const uint64_t connection = agent.connection;
  agent.incarnation = 0;
  agent.workers.clear();
  if (connection != 0 && connections_.at(connection).open) {
    // What it sent still arrives.
    const TimePoint last = std::max(now_, connections_.at(connection).last_up);
    At(last - now_ + Duration(1), [this, connection] { Break(connection, true); });
  }
}

void JobSimulation::Awake(size_t index, uint64_t incarnation, std::function<void()> act) {
  Agent& agent = agents_[index];
  if (agent.incarnation != incarnation) return;
  const auto guarded = [this, index, incarnation, act = std::move(act)] {
    if (agents_[index].incarnation == incarnation) act();
  };
  if (!agent.frozen) return guarded();
  agent.backlog.push_back(guarded);
}

void JobSimulation::Feed(size_t index, const Event& event) {
  Agent& agent = agents_[index];
  const uint64_t incarnation = agent.incarnation;
  if (incarnation == 0) return;
  const Effects effects = agent.core->Step(event, now_);
  for (const Effect& effect : effects) {
    if (agents_[index].incarnation == incarnation) Perform(index, effect);
  }
  if (agents_[index].incarnation != incarnation) return;
  if (const auto& assignment = agent.core->assignment()) {
    if (assignment->generation < agent.last_run)
      Broken(absl::StrCat(agent.node_id, " goes back to ", channel::ToText(assignment->generation)));
    agent.last_run = assignment->generation;
    generations_.insert(assignment->generation);
  }
  Pump(index);
  ArmAgent(index);
}

void JobSimulation::ArmAgent(size_t index) {
  Agent& agent = agents_[index];
  const auto when = agent.core->NextDeadline();
  const uint64_t timer = agent.timer = ++ids_;
  if (!when) return;
  At(std::max(Duration::zero(), *when - now_), [this, index, timer, incarnation = agent.incarnation] {
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
  const size_t place = agent.place;
  if (services_[place].id == 0 || !Reach(index, place)) {
    agent.place = (place + 1) % services_.size();
    return Retry(index, milliseconds(50) + Delay(400));
  }
  const uint64_t id = agent.connection = ++ids_;
  connections_[id] = Connection{index, place, agent.incarnation, services_[place].id, true, now_, now_};
  agent.end.OpenStream();
  agent.heard = now_;
  Up(id,
     [this, id, place, welcomed_by = agent.end.welcomed_by(), received = agent.end.receiver.Acknowledge(),
      opened = agent.end.outbox.Opening(settings_)] { OnHello(place, id, opened, welcomed_by, received); });
  Beat(index, id);
}

void JobSimulation::Beat(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  if (agent.connection != id) return;
  if (now_ - agent.heard > seconds(3)) return Lost(index, id);
  if (agent.end.welcomed() && connections_.at(id).open) {
    Up(id, [this, id, node_id = agent.node_id, place = connections_.at(id).service, sent = now_,
            received = agent.end.receiver.Acknowledge()] {
      const auto session = services_[place].sessions.find(node_id);
      if (session == services_[place].sessions.end() || session->second.connection != id) return;
      session->second.end.sender.Acknowledge(received);
      StepService(place, {node_id, rendezvous::Heartbeat{}});
      const rendezvous::Generation generation = services_[place].jobs->RunBy(settings_.job_id, node_id);
      Down(id,
           [this, index = connections_.at(id).agent, sent, generation] { OnLease(index, sent, generation); });
    });
  }
  At(settings_.heartbeat_interval, [this, index, id, incarnation = agent.incarnation] {
    Awake(index, incarnation, [this, index, id] { Beat(index, id); });
  });
}

void JobSimulation::OnLease(size_t index, TimePoint sent, const rendezvous::Generation& generation) {
  Agent& agent = agents_[index];
  agent.heard = now_;
  Renew(index, agent.end.TakeLease({sent - TimePoint(), generation}));
}

void JobSimulation::Renew(size_t index, std::optional<Duration> from) {
  if (!from) return;
  agents_[index].lease_ends = TimePoint() + *from + settings_.fence_timeout;
  Feed(index, LeaseRenewed{agents_[index].lease_ends});
}

void JobSimulation::Pump(size_t index) {
  Agent& agent = agents_[index];
  if (agent.connection == 0 || !agent.end.welcomed()) return;
  const uint64_t id = agent.connection;
  while (const auto next = agent.end.outbox.Next()) {
    if (!connections_.at(id).open) continue;  // written into a dead cable
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
  agent.end.outbox.Observe(event);
  if (const auto* assigned = std::get_if<rendezvous::Assigned>(&event)) {
    agent.knows.insert(assigned->assignment().generation);
    Renew(index, agent.end.FirstLease());
  }
  if (const auto* others = std::get_if<rendezvous::Membership>(&event))
    agent.knows.insert(others->generation.assignment().generation);
  if (setup_.trace) Note(agent.node_id, " hears ", rendezvous::Describe(event));
  if (const auto* elsewhere = std::get_if<rendezvous::Redirect>(&event)) {
    const auto& list = settings_.endpoints;
    agent.place =
        static_cast<size_t>(std::find(list.begin(), list.end(), elsewhere->endpoint) - list.begin());
    return Break(id, true);
  }
  Feed(index, event);
}

void JobSimulation::Lost(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  if (agent.connection != id) return;
  agent.connection = 0;
  agent.end.CloseStream();
  Feed(index, SessionDisconnected{"lost"});
  if (agents_[index].incarnation != 0) Retry(index, milliseconds(50));
}

void JobSimulation::Perform(size_t index, const Effect& effect) {
  Agent& agent = agents_[index];
  if (const auto* offer = std::get_if<SendOffer>(&effect)) {
    agent.end.outbox.Add(rendezvous::OfferSent{offer->offer});
  } else if (const auto* send = std::get_if<SendToService>(&effect)) {
    agent.end.outbox.Add(send->event);
  } else if (const auto* start = std::get_if<StartWorkers>(&effect)) {
    agent.workers.resize(static_cast<size_t>(setup_.workers));
    for (const int local_rank : start->local_ranks) {
      if (!start->warm_up &&
          !starts_.insert({agent.node_id, local_rank, start->assignment.generation}).second)
        Broken(absl::StrCat(agent.node_id, " starts worker ", local_rank, " twice in ",
                            channel::ToText(start->assignment.generation)));
      StartOne(index, local_rank);
    }
  } else if (const auto* all = std::get_if<SignalWorkers>(&effect)) {
    for (int i = 0; i < static_cast<int>(agent.workers.size()); ++i) SignalOne(index, i, all->signal);
  } else if (const auto* one = std::get_if<SignalWorker>(&effect)) {
    SignalOne(index, one->local_rank, one->signal);
  } else if (std::holds_alternative<CleanUp>(effect)) {
    agent.workers.clear();
  } else if (std::holds_alternative<Exit>(effect)) {
    Note(agent.node_id, " exits");
    Pump(index);
    Die(index);
  }
}

void JobSimulation::StartOne(size_t index, int local_rank) {
  Worker& worker = agents_[index].workers[static_cast<size_t>(local_rank)];
  if (worker.alive) Broken(absl::StrCat(agents_[index].node_id, " starts a second worker ", local_rank));
  worker = Worker{true, false, ++ids_, false};
  At(Delay(300), [this, index, local_rank, serial = worker.serial] {
    Agent& agent = agents_[index];
    const auto place = static_cast<size_t>(local_rank);
    if (place < agent.workers.size() && agent.workers[place].alive && agent.workers[place].serial == serial)
      Say(index, local_rank, channel::Hello{.cooperative = setup_.cooperative});
  });
  if (!setup_.warm_up) return;
  At(milliseconds(300) + Delay(300), [this, index, local_rank, serial = worker.serial] {
    const Agent& agent = agents_[index];
    const auto place = static_cast<size_t>(local_rank);
    if (place < agent.workers.size() && agent.workers[place].serial == serial)
      Say(index, local_rank, channel::Ready{});
  });
}

void JobSimulation::Say(size_t index, int local_rank, channel::WorkerMessage message) {
  Agent& agent = agents_[index];
  const auto place = static_cast<size_t>(local_rank);
  if (place >= agent.workers.size() || !agent.workers[place].alive) return;
  Awake(index, agent.incarnation, [this, index, local_rank, message = std::move(message)] {
    Feed(index, WorkerSaid{local_rank, message});
  });
}

void JobSimulation::SignalOne(size_t index, int local_rank, int signal) {
  Agent& agent = agents_[index];
  Worker& worker = agent.workers[static_cast<size_t>(local_rank)];
  if (!worker.alive) return;
  const bool leaves = setup_.cooperative && signal != SIGKILL && random_() % 8 != 0;
  At(signal == SIGKILL ? Delay(5) : Delay(800),
     [this, index, local_rank, signal, leaves, serial = worker.serial] {
       const Agent& a = agents_[index];
       const auto place = static_cast<size_t>(local_rank);
       if (place >= a.workers.size() || a.workers[place].serial != serial) return;
       if (leaves) Say(index, local_rank, channel::Leaving{"told to"});
       EndWorker(index, local_rank, leaves ? 0 : 128 + signal, signal == SIGKILL ? SIGKILL : 0);
     });
}

void JobSimulation::EndWorker(size_t index, int local_rank, int code, int signal) {
  Agent& agent = agents_[index];
  const auto place = static_cast<size_t>(local_rank);
  if (place >= agent.workers.size() || !agent.workers[place].alive) return;
  agent.workers[place].alive = false;
  const uint64_t serial = agent.workers[place].serial, incarnation = agent.incarnation;
  const auto is_current = [this, index, place, serial] {
    return place < agents_[index].workers.size() && agents_[index].workers[place].serial == serial;
  };
  Awake(index, incarnation, [this, index, local_rank, code, signal, is_current] {
    if (is_current()) {
      Feed(index, WorkerExited{.local_rank = local_rank, .pid = 7, .exit_code = code, .signal = signal});
    }
  });
  At(Delay(50), [this, index, local_rank, incarnation, is_current] {
    Awake(index, incarnation, [this, index, local_rank, is_current] {
      if (is_current()) Feed(index, WorkerGone{local_rank});
    });
  });
}

}  // namespace mtrun::launcher
