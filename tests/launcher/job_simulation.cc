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

/// With a list of services at most one generation has all its members running it; only such a one can commit
/// steps. (One service alone cannot know of a whole generation that is cut off from it, and no service of one
/// that was known only to services that died.)
void JobSimulation::Check() {
  if (services_.size() == 1) return;
  std::map<rendezvous::Generation, size_t> running;
  std::optional<rendezvous::Generation> complete;
  for (const Agent& agent : agents_) {
    if (agent.incarnation == 0 || !agent.core->assignment()) continue;
    const AgentCore::Phase phase = agent.core->phase();
    if (phase != AgentCore::Phase::kRunning && phase != AgentCore::Phase::kFinished) continue;
    const rendezvous::Assignment& assignment = *agent.core->assignment();
    if (++running[assignment.generation] < assignment.members.size()) continue;
    if (forgotten_.contains(assignment.generation)) continue;
    if (complete) {
      Broken(absl::StrCat("two whole generations at once: ", channel::ToText(*complete), " and ",
                          channel::ToText(assignment.generation)));
    }
    complete = assignment.generation;
  }
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
      if (!fired) break;
      agent.frozen = true;
      At(Delay(3000), [this, node, incarnation = agent.incarnation] {
        if (agents_[node].incarnation != incarnation) return;
        agents_[node].frozen = false;
        for (const auto& act : std::exchange(agents_[node].backlog, {})) At(Duration(1), act);
      });
      break;
    case 2:
      fired = cut_.insert(node).second;
      for (auto& [id, connection] : connections_) {
        if (connection.agent == node || connection.service == node) {
          if (connection.agent != connection.service) connection.open = false;  // in silence
        }
      }
      At(Delay(3500), [this, node] { cut_.erase(node); });
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
            channel::Broken{agent.core->assignment()->generation, "torn"});
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

// ---- agents ----

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
  config.endpoint = "service0";
  config.max_restarts = settings_.max_restarts;
  config.shutdown_timeout = seconds(1);
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
  agent.welcomed = false;
  agent.heard = now_;
  Up(id, [this, id, place, service_id = agent.service_id, received = agent.received,
          opened = rendezvous::StreamOpened{settings_, agent.outbox.seen(), agent.outbox.seen_restarts(),
                                            agent.outbox.seen_refunds()}] {
    OnHello(place, id, opened, service_id, received);
  });
  Beat(index, id);
}

void JobSimulation::Beat(size_t index, uint64_t id) {
  Agent& agent = agents_[index];
  if (agent.connection != id) return;
  if (now_ - agent.heard > seconds(3)) return Lost(index, id);
  if (agent.welcomed && connections_.at(id).open) {
    Up(id,
       [this, id, node_id = agent.node_id, place = connections_.at(id).service, received = agent.received] {
         const auto session = services_[place].sessions.find(node_id);
         if (session == services_[place].sessions.end() || session->second.connection != id) return;
         auto& waiting = session->second.unacknowledged;
         while (!waiting.empty() && waiting.front().first <= received) waiting.pop_front();
         StepService(place, {node_id, rendezvous::Heartbeat{}});
         Down(id, [this, index = connections_.at(id).agent] { agents_[index].heard = now_; });
       });
  }
  At(settings_.heartbeat_interval, [this, index, id, incarnation = agent.incarnation] {
    Awake(index, incarnation, [this, index, id] { Beat(index, id); });
  });
}

void JobSimulation::Pump(size_t index) {
  Agent& agent = agents_[index];
  if (agent.connection == 0 || !agent.welcomed) return;
  const uint64_t id = agent.connection;
  while (const rendezvous::Outbox::Entry* entry = agent.outbox.Next()) {
    if (!connections_.at(id).open) continue;  // written into a dead cable
    Up(id, [this, id, place = connections_.at(id).service, sequence = entry->sequence, said = entry->said,
            received = agent.received] { OnUp(place, id, sequence, said, received); });
  }
}

void JobSimulation::OnDown(size_t index, uint64_t id, uint64_t sequence,
                           const rendezvous::ServiceEvent& event, uint64_t acknowledged) {
  Agent& agent = agents_[index];
  if (agent.connection != id || !agent.welcomed) return;
  agent.heard = now_;
  agent.outbox.Acknowledge(acknowledged);
  if (sequence != agent.received + 1) return;
  agent.received = sequence;
  agent.outbox.Observe(event);
  if (setup_.trace) Note(agent.node_id, " hears ", rendezvous::Describe(event));
  if (const auto* elsewhere = std::get_if<rendezvous::Elsewhere>(&event)) {
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
  agent.welcomed = false;
  Feed(index, SessionDisconnected{"lost"});
  if (agents_[index].incarnation != 0) Retry(index, milliseconds(50));
}

void JobSimulation::Perform(size_t index, const Effect& effect) {
  Agent& agent = agents_[index];
  if (const auto* offer = std::get_if<SendOffer>(&effect)) {
    agent.outbox.Add(rendezvous::OfferSent{offer->offer});
  } else if (const auto* send = std::get_if<SendToService>(&effect)) {
    agent.outbox.Add(send->event);
  } else if (const auto* start = std::get_if<StartWorkers>(&effect)) {
    agent.workers.resize(static_cast<size_t>(setup_.workers));
    for (const int local_rank : start->local_ranks) {
      if (!start->ahead && !starts_.insert({agent.node_id, local_rank, start->assignment.generation}).second)
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
      Say(index, local_rank, channel::Hello{.address = "", .cooperative = setup_.cooperative});
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

// ---- services ----

void JobSimulation::BootService(size_t index) {
  Service& service = services_[index];
  if (service.id != 0) return;
  service = Service();
  service.id = ++ids_;
  service.jobs =
      std::make_unique<rendezvous::JobTable>(rendezvous::JobMachine::Options{random_(), now_, seconds(3)});
  Note("service ", index, " boots");
}

void JobSimulation::KillService(size_t index) {
  services_[index] = Service();
  const auto knows = [](const Service& service) {
    return service.id != 0 && !service.jobs->jobs().empty() &&
           service.jobs->jobs().begin()->second.issued().size() > 0;
  };
  if (std::none_of(services_.begin(), services_.end(), knows))
    forgotten_.insert(generations_.begin(), generations_.end());
  for (auto& [id, connection] : connections_) {
    // A host that is cut off answers nobody.
    if (connection.service == index && Reach(connection.agent, index)) Break(id, false);
  }
}

void JobSimulation::OnHello(size_t index, uint64_t id, rendezvous::StreamOpened opened, uint64_t service_id,
                            uint64_t acknowledged) {
  Service& service = services_[index];
  const Connection& connection = connections_.at(id);
  const std::string node_id = agents_[connection.agent].node_id;
  if (agents_[connection.agent].incarnation != connection.incarnation) return;  // died on the way
  Session& session = service.sessions[node_id];
  const bool known = session.incarnation == connection.incarnation;
  if (!known) session = Session{.id = ++ids_};
  const bool resumed = known && (service_id == session.id || service_id == 0);
  session.incarnation = connection.incarnation;
  if (known && !resumed) {
    session.received = 0;
    session.next_sequence = 1;
    for (auto& [sequence, event] : session.unacknowledged) sequence = session.next_sequence++;
  }
  if (resumed) {
    while (!session.unacknowledged.empty() && session.unacknowledged.front().first <= acknowledged)
      session.unacknowledged.pop_front();
  }
  session.connection = id;
  Note("service ", index, ": hello of ", node_id, resumed ? ", resumed" : "");
  Down(id,
       [this, id, agent = connection.agent, service_id = session.id, resumed, received = session.received] {
         Agent& a = agents_[agent];
         if (a.connection != id) return;
         a.welcomed = true;
         a.heard = now_;
         a.service_id = service_id;
         if (resumed) {
           a.outbox.Acknowledge(received);
           a.outbox.Resume();
         } else {
           a.outbox.BeginAnew();
           a.received = 0;
         }
         Feed(agent, SessionConnected{});
       });
  for (const auto& [sequence, event] : std::deque(session.unacknowledged))
    SendDown(index, session, sequence, event);
  StepService(index, {node_id, std::move(opened)});
}

void JobSimulation::OnUp(size_t index, uint64_t id, uint64_t sequence, const rendezvous::AgentSaid& said,
                         uint64_t acknowledged) {
  Service& service = services_[index];
  for (auto& [node_id, session] : service.sessions) {
    if (session.connection != id) continue;
    while (!session.unacknowledged.empty() && session.unacknowledged.front().first <= acknowledged)
      session.unacknowledged.pop_front();
    if (sequence <= session.received) return;
    if (sequence != session.received + 1) {
      return Broken(absl::StrCat(node_id, "'s event ", sequence, " came after ", session.received));
    }
    session.received = sequence;
    if (setup_.trace) Note("service ", index, ": ", node_id, " says ", rendezvous::Describe(said.event));
    Down(id, [this, agent = connections_.at(id).agent, sequence, id] {
      if (agents_[agent].connection == id) agents_[agent].outbox.Acknowledge(sequence);
    });
    return StepService(index, {std::string(node_id), said});
  }
}

void JobSimulation::StepService(size_t index, const rendezvous::Event& event) {
  if (services_[index].id == 0) return;
  PerformService(index, services_[index].jobs->Step(settings_.job_id, event, now_));
  ArmService(index);
  ConsiderLooking(index);
}

void JobSimulation::PerformService(size_t index,
                                   const std::vector<rendezvous::JobTable::JobEffect>& effects) {
  Service& service = services_[index];
  for (const auto& [job_id, effect] : effects) {
    if (const auto* line = std::get_if<rendezvous::LogLine>(&effect)) {
      Note("service ", index, ": ", line->text);
    } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
      const auto session = service.sessions.find(send->node_id);
      if (session == service.sessions.end()) continue;
      const uint64_t sequence = session->second.next_sequence++;
      session->second.unacknowledged.emplace_back(sequence, send->event);
      SendDown(index, session->second, sequence, send->event);
    } else {
      const std::string node_id = std::get<rendezvous::CloseSession>(effect).node_id;
      const auto session = service.sessions.find(node_id);
      if (session == service.sessions.end()) continue;
      const uint64_t id = session->second.connection;
      service.sessions.erase(session);
      if (id != 0) Down(id, [this, id] { Break(id, false); });
    }
  }
}

void JobSimulation::SendDown(size_t index, Session& session, uint64_t sequence,
                             const rendezvous::ServiceEvent& event) {
  const uint64_t id = session.connection;
  if (id == 0) return;
  (void)index;
  Down(id, [this, id, agent = connections_.at(id).agent, sequence, event, received = session.received] {
    OnDown(agent, id, sequence, event, received);
  });
}

void JobSimulation::ArmService(size_t index) {
  Service& service = services_[index];
  const auto when = service.jobs->NextDeadline();
  const uint64_t timer = service.timer = ++ids_;
  if (!when) return;
  At(std::max(Duration::zero(), *when - now_), [this, index, timer] {
    Service& s = services_[index];
    if (s.id == 0 || s.timer != timer) return;
    PerformService(index, s.jobs->Tick(now_));
    ArmService(index);
    ConsiderLooking(index);
  });
}

void JobSimulation::ConsiderLooking(size_t index) {
  Service& service = services_[index];
  if (service.looking || service.jobs->jobs().empty()) return;
  const rendezvous::JobMachine& job = service.jobs->jobs().begin()->second;
  const auto wanted = job.WantsLook();
  if (!wanted) return;
  const TimePoint due = service.last_look + job.LookPause();
  const uint64_t timer = service.look_timer = ++ids_;
  if (due > now_) {
    return At(due - now_, [this, index, timer] {
      if (services_[index].look_timer == timer && services_[index].id != 0) ConsiderLooking(index);
    });
  }
  service.looking = true;
  // What it sees is as old as the answers that it waits for.
  At(Delay(700), [this, index, id = service.id, looked = LookAround(index, *wanted)] {
    if (services_[index].id != id) return;
    services_[index].looking = false;
    services_[index].last_look = now_;
    StepService(index, {"", looked});
  });
}

rendezvous::LookedAround JobSimulation::LookAround(size_t index, const rendezvous::LookWanted& wanted) const {
  using State = rendezvous::PeerService::State;
  rendezvous::LookedAround looked;
  for (size_t i = 0; i < services_.size(); ++i) {
    rendezvous::PeerService peer;
    peer.endpoint = wanted.endpoints[i];
    if (i == index) {
      peer.state = State::kSelf;
    } else if (Reach(index, i) && services_[i].id == 0) {
      peer.state = State::kGone;
    } else if (Reach(index, i)) {
      peer.state = State::kWithoutJob;
      for (const auto& [job_id, job] : services_[i].jobs->jobs()) {
        const rendezvous::JobView view = job.View(now_);
        if (view.phase == "ended") continue;
        peer.state = State::kWithJob;
        peer.generation = view.generation;
        peer.authority = view.authority;
      }
    }
    looked.peers.push_back(peer);
  }
  for (const auto& [node_id, where] : wanted.members) {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (where != absl::StrCat("node", i, ":1") || !Reach(index, i)) continue;
      if (agents_[i].incarnation == 0 || agents_[i].node_id != node_id) looked.dead.insert(node_id);
    }
  }
  return looked;
}

}  // namespace mtrun::launcher
