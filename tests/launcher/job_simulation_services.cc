// The simulated job: services and the sessions that they accept.
#include "tests/launcher/job_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

using std::chrono::seconds;

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
           service.jobs->jobs().begin()->second.View({}).generation.number > 0;
  };
  if (std::none_of(services_.begin(), services_.end(), knows))
    forgotten_.insert(generations_.begin(), generations_.end());
  for (auto& [id, connection] : connections_) {
    // A host that is cut off answers nobody.
    if (connection.service == index && Reach(connection.agent, index)) Break(id, false);
  }
}

void JobSimulation::OnHello(size_t index, uint64_t id, rendezvous::StreamOpened opened, uint64_t welcomed_by,
                            uint64_t acknowledged) {
  Service& service = services_[index];
  const Connection& connection = connections_.at(id);
  const std::string node_id = agents_[connection.agent].node_id;
  if (agents_[connection.agent].incarnation != connection.incarnation) return;  // died on the way
  Session& session = service.sessions[node_id];
  if (session.incarnation != connection.incarnation)
    session = Session{.incarnation = connection.incarnation,
                      .end = rendezvous::ServiceEnd<rendezvous::ServiceEvent>(++ids_)};
  const bool resumed = session.end.Open(welcomed_by, acknowledged);
  session.connection = id;
  Note("service ", index, ": hello of ", node_id, resumed ? ", resumed" : "");
  Down(id, [this, id, agent = connection.agent, record = session.end.id(), resumed,
            received = session.end.receiver.Acknowledge()] {
    Agent& a = agents_[agent];
    if (a.connection != id) return;
    a.heard = now_;
    a.end.OnWelcome(record, resumed, received);
    Feed(agent, SessionConnected{});
  });
  PumpDown(session);
  StepService(index, {node_id, std::move(opened)});
}

void JobSimulation::OnUp(size_t index, uint64_t id, uint64_t sequence, const rendezvous::AgentSaid& said,
                         uint64_t acknowledged) {
  Service& service = services_[index];
  for (auto& [node_id, session] : service.sessions) {
    if (session.connection != id) continue;
    session.end.sender.Acknowledge(acknowledged);
    const uint64_t before = session.end.receiver.received();
    const auto arrival = session.end.receiver.Take(sequence);
    if (arrival == rendezvous::StreamReceiver::Arrival::kRepeated) return;
    if (arrival == rendezvous::StreamReceiver::Arrival::kGap)
      return Broken(absl::StrCat(node_id, "'s event ", sequence, " came after ", before));
    if (setup_.trace) Note("service ", index, ": ", node_id, " says ", rendezvous::Describe(said.event));
    Down(id, [this, agent = connections_.at(id).agent, sequence, id] {
      if (agents_[agent].connection == id) agents_[agent].end.outbox.Acknowledge(sequence);
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
      if (const auto* assigned = std::get_if<rendezvous::Assigned>(&send->event))
        NoteInformed(service, assigned->assignment().generation);
      const auto session = service.sessions.find(send->node_id);
      if (session == service.sessions.end()) continue;
      session->second.end.sender.Add(send->event);
      PumpDown(session->second);
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

void JobSimulation::NoteInformed(const Service& service, const rendezvous::Generation& formed) {
  if (informed_.contains(formed)) return;
  std::set<rendezvous::Generation>& known = informed_[formed];
  for (const Agent& agent : agents_) {
    if (agent.incarnation != 0 && service.sessions.contains(agent.node_id))
      known.insert(agent.knows.begin(), agent.knows.end());
  }
}

void JobSimulation::PumpDown(Session& session) {
  const uint64_t id = session.connection;
  if (id == 0) return;
  while (const auto next = session.end.sender.Next()) {
    Down(id,
         [this, id, agent = connections_.at(id).agent, sequence = next->sequence, event = *next->message,
          received = session.end.receiver.Acknowledge()] { OnDown(agent, id, sequence, event, received); });
  }
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
  const auto wanted = job.WantsProbe();
  if (!wanted) return;
  const TimePoint due = service.last_look + job.ProbeInterval();
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

rendezvous::ProbeResult JobSimulation::LookAround(size_t index,
                                                  const rendezvous::ProbeRequest& wanted) const {
  using State = rendezvous::PeerService::State;
  rendezvous::ProbeResult looked;
  for (size_t i = 0; i < wanted.endpoints.size(); ++i) {
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
  for (const auto& [node_id, probe] : wanted.members) {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (probe.endpoint != absl::StrCat("node", i, ":1") || !Reach(index, i)) continue;
      (agents_[i].incarnation == probe.id ? looked.alive : looked.dead).insert(node_id);
    }
  }
  return looked;
}

}  // namespace mtrun::launcher
