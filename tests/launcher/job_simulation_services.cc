// The simulated job: services and the sessions that they accept.
#include "rendezvous/wire/job_settings.h"
#include "tests/launcher/job_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

using std::chrono::seconds;

void JobSimulation::BootService(size_t index) {
  Service& service = services_[index];
  if (service.id != 0 || service.lost || setup_.hosted) return;
  service = Service();
  service.id = ++ids_;
  service.since = now_;
  service.jobs = std::make_unique<rendezvous::JobTable>(
      rendezvous::JobMachine::Options{random_(), NowOn(index), seconds(3)});
  if (setup_.services == 1) ReadWrittenDown(service);
  Note("service ", index, " boots");
}

void JobSimulation::KillService(size_t index) {
  died_[absl::StrCat("service ", services_[index].id)] = now_;
  for (const rendezvous::JobSettings& job : settings_)
    forgetful_ |= services_[index].id != 0 && !formed_.empty() && !file_.contains(job.job_id);
  services_[index] = Service();
  service_died_ = now_;
  NoteServicesDied();
  for (const auto& [id, connection] : connections_) {
    if (connection.service == index) End(id, By::kService);
  }
}

void JobSimulation::OnHello(size_t index, uint64_t id, uint64_t attempt, rendezvous::StreamOpened opened,
                            uint64_t welcomed_by, uint64_t acknowledged) {
  Service& service = services_[index];
  const Connection& connection = connections_.at(id);
  const std::string node_id = agents_[connection.agent].node_id;
  if (agents_[connection.agent].incarnation != connection.incarnation) return;  // died in transit
  Session& session = service.sessions[node_id];
  if (session.incarnation != connection.incarnation)
    session = Session{.incarnation = connection.incarnation,
                      .end = rendezvous::ServiceEnd<rendezvous::ServiceEvent>(++ids_)};
  if (!session.end.Takes(attempt)) return;
  if (session.connection != 0 && session.connection != id) End(session.connection, By::kService);
  const bool resumed = session.end.Open(welcomed_by, acknowledged);
  session.connection = id;
  Note("service ", index, ": hello of ", node_id, resumed ? ", resumed" : "");
  const rendezvous::ServiceHost host = HostOf(connection.agent, index);
  Down(id, [this, id, agent = connection.agent, record = session.end.id(), resumed, host,
            received = session.end.receiver.Acknowledge()] {
    Agent& a = agents_[agent];
    if (a.connection != id) return;
    a.heard = now_;
    a.retries->Connected();
    a.end.OnWelcome(record, resumed, received);
    if (a.watch) {
      a.watch->OnConnected(host, NowOn(a.node));
      a.endpoints = {a.endpoints[a.place]};
      a.place = 0;
    }
    // The session beats at once; the agent answers in its own thread.
    const bool beats_first = !setup_.late_first_beat || OneIn(2);
    if (beats_first) SendBeat(agent, id);
    Arrive(agent, SessionConnected{});
    if (!beats_first && agents_[agent].connection == id) SendBeat(agent, id);
    MindHost(agent);
  });
  PumpDown(session);
  StepService(index, settings_[agents_[connection.agent].job].job_id, {node_id, std::move(opened)});
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
    return StepService(index, settings_[agents_[connections_.at(id).agent].job].job_id,
                       {std::string(node_id), said});
  }
}

void JobSimulation::OnBeat(size_t index, uint64_t id, const std::string& node_id,
                           const rendezvous::Heartbeat& beat, uint64_t acknowledged) {
  Service& service = services_[index];
  const auto session = service.sessions.find(node_id);
  if (session == service.sessions.end() || session->second.connection != id) return;
  session->second.end.sender.Acknowledge(acknowledged);
  const size_t agent = connections_.at(id).agent;
  const std::string& job_id = settings_[agents_[agent].job].job_id;
  StepService(index, job_id, {node_id, beat});
  Down(id, [this, agent, lease = service.jobs->LeaseFor(job_id, node_id, beat.sent, now_)] {
    OnLease(agent, lease);
  });
}

void JobSimulation::StepService(size_t index, const std::string& job_id, const rendezvous::Event& event) {
  if (services_[index].id == 0) return;
  NoteKnown(index);
  PerformService(index, services_[index].jobs->Step(job_id, event, NowOn(index)));
  WriteDown(index, job_id);
  ArmService(index);
  ConsiderLooking(index);
}

void JobSimulation::PerformService(size_t index,
                                   const std::vector<rendezvous::JobTable::JobEffect>& effects) {
  Service& service = services_[index];
  NoteRuns(service);
  for (const auto& [job_id, effect] : effects) {
    if (const auto* line = std::get_if<rendezvous::LogLine>(&effect)) {
      Note("service ", index, ": ", line->text);
    } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
      if (const auto* assigned = std::get_if<rendezvous::Assigned>(&send->event))
        NoteFormed(service, assigned->assignment());
      if (const auto* ended = std::get_if<rendezvous::JobEnded>(&send->event))
        NoteEnded(send->node_id, *ended);
      if (const auto* over = std::get_if<rendezvous::GenerationDissolved>(&send->event))
        CheckSilence(service, *over);
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
      if (id != 0) Down(id, [this, id] { End(id, By::kService); });
    }
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
  At(UntilOn(index, *when), [this, index, timer, id = service.id] {
    AsService(index, id, [this, index, timer] {
      if (services_[index].timer != timer) return;
      NoteKnown(index);
      PerformService(index, services_[index].jobs->Tick(NowOn(index)));
      for (const rendezvous::JobSettings& job : settings_) WriteDown(index, job.job_id);
      ArmService(index);
      ConsiderLooking(index);
    });
  });
}

/// Probes one job at a time, since all jobs wait for the same answers.
void JobSimulation::ConsiderLooking(size_t index) {
  Service& service = services_[index];
  if (service.looking) return;
  std::optional<TimePoint> later;
  for (const auto& [job_id, job] : service.jobs->jobs()) {
    const auto wanted = job.WantsProbe();
    if (!wanted) continue;
    const TimePoint due = service.last_look[job_id] + job.ProbeInterval();
    if (due <= now_) return Look(index, *wanted);
    later = std::min(later.value_or(due), due);
  }
  if (!later) return;
  const uint64_t timer = service.look_timer = ++ids_;
  At(*later - now_, [this, index, timer, id = service.id] {
    AsService(index, id, [this, index, timer] {
      if (services_[index].look_timer == timer) ConsiderLooking(index);
    });
  });
}

void JobSimulation::Look(size_t index, const rendezvous::ProbeRequest& wanted) {
  services_[index].looking = true;
  // The result is at least as old as the answers that it waits for. A service that probes slowly when a run
  // ends may form a generation before it sees the end.
  const bool slow = OneIn(8) && !calm_ && finishing_ < run_;
  At(Delay(slow ? 4000 : 700), [this, index, id = services_[index].id, job_id = wanted.job_id,
                                began = NowOn(index), looked = LookAround(index, wanted)]() mutable {
    AsService(index, id, [this, index, job_id, began, looked = std::move(looked)]() mutable {
      looked.took = NowOn(index) - began;
      services_[index].looking = false;
      services_[index].last_look[job_id] = now_;
      StepService(index, job_id, {"", std::move(looked)});
    });
  });
}

rendezvous::PeerService JobSimulation::LookAtService(size_t index, const std::string& endpoint,
                                                     const rendezvous::ProbeRequest& wanted) {
  using State = rendezvous::PeerService::State;
  rendezvous::PeerService peer;
  peer.endpoint = endpoint;
  const std::optional<size_t> there = ServiceAt(endpoint);
  const size_t other = NodeAt(endpoint);
  if (there == index) {
    peer.state = State::kSelf;
  } else if (Reach(index, other) && !there) {
    peer.state = State::kGone;
  } else if (Reach(index, other) && !IsFrozen(other)) {
    AskAs(index, other, wanted);
    peer.state = State::kWithoutJob;
    peer.last_number = services_[other].jobs->LastNumber(wanted.job_id);
    peer.ended = services_[other].jobs->EndedRuns()[wanted.job_id];
    const auto& jobs = services_[other].jobs->jobs();
    const auto job = jobs.find(wanted.job_id);
    if (job == jobs.end()) return peer;
    if (job->second.outcome()) return peer;
    peer.incarnation = job->second.incarnation();
    peer.proof = job->second.Proof(NowOn(other));
    peer.state = State::kWithJob;
    peer.generation = job->second.generation().id();
    peer.authority = job->second.HasAuthority();
  }
  return peer;
}

void JobSimulation::LookAtMember(size_t index, const std::string& node_id,
                                 const rendezvous::PresenceProbe& probe,
                                 rendezvous::ProbeResult* looked) const {
  for (const Agent& agent : agents_) {
    if (probe.endpoint != absl::StrCat("node", agent.node, ":", 1 + agent.job) &&
        (agent.node != 0 || probe.endpoint != absl::StrCat("head:", 1 + agent.job)))
      continue;
    if (setup_.firewall && agent.node == 0 && index != 0) looked->dead.insert(node_id);
    if ((setup_.firewall && agent.node == 0 && index != 0) || !Reach(index, agent.node)) continue;
    // Another agent that got the port sends another id.
    const bool hosts = setup_.hosted && services_[agent.node].owner == probe.id;
    const bool lives = agent.incarnation == probe.id || hosts;
    const auto left = leftovers_.find(probe.id);
    const bool silent = lives ? agent.muted_until > now_ : left != leftovers_.end() && left->second > now_;
    if (!silent) (lives ? looked->alive : looked->dead).insert(node_id);
  }
}

rendezvous::ProbeResult JobSimulation::LookAround(size_t index, const rendezvous::ProbeRequest& wanted) {
  rendezvous::ProbeResult looked;
  for (const std::string& endpoint : wanted.endpoints)
    looked.peers.push_back(LookAtService(index, endpoint, wanted));
  for (const auto& [node_id, probe] : wanted.members) LookAtMember(index, node_id, probe, &looked);
  return looked;
}

}  // namespace mtrun::launcher
