// The simulated job: services hosted by agents, and takeovers from a dead one.
#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/launcher/job_simulation.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kEndpointPort = 29400;
constexpr char kHost[] = "host";

}  // namespace

// ---- locating a service ----

size_t JobSimulation::NodeAt(const std::string& endpoint) const {
  const size_t digit = endpoint.find_first_of("0123456789");
  return absl::StartsWith(endpoint, "head") ? 0 : static_cast<size_t>(std::atoi(endpoint.c_str() + digit));
}

std::optional<size_t> JobSimulation::ServiceAt(const std::string& endpoint) const {
  const size_t node = NodeAt(endpoint);
  const Service& service = services_[node];
  const bool there = !setup_.hosted || endpoint == service.endpoint || endpoint == kEndpoint;
  return service.id != 0 && there ? std::optional(node) : std::nullopt;
}

bool JobSimulation::IsFrozen(size_t index) const {
  return setup_.hosted && agents_[index].frozen && agents_[index].incarnation == services_[index].owner;
}

void JobSimulation::AsService(size_t index, uint64_t id, std::function<void()> act) {
  if (!IsFrozen(index)) {
    if (services_[index].id == id) act();
    return;
  }
  agents_[index].backlog.push_back([this, index, id, act = std::move(act)] {
    if (services_[index].id == id) act();
  });
}

// ---- the services ----

int JobSimulation::BootHosted(size_t index) {
  const bool at_endpoint = index == 0;
  const int port = at_endpoint ? kEndpointPort : ++ports_;
  Service& service = services_[index] = Service();
  service.id = ++ids_;
  service.since = now_;
  service.owner = agents_[index].incarnation;
  service.endpoint = absl::StrCat("node", index, ":", port);
  const rendezvous::JobMachine::Options options{.seed = random_(),
                                                .service_started = NowOn(index),
                                                .recovery_window = seconds(3),
                                                .role = {kEndpoint, /*embedded=*/true, !at_endpoint}};
  const std::string& job_id = settings_[agents_[index].job].job_id;
  service.jobs = std::make_unique<rendezvous::JobTable>(options, at_endpoint ? job_id : "");
  if (at_endpoint) ReadWrittenDown(service);
  const rendezvous::JobSettings& settings = settings_[agents_[index].job];
  agents_[index].watch.emplace(settings.takeover_majority, settings.LostAfter());
  return port;
}

rendezvous::ServiceHost JobSimulation::HostOf(size_t agent, size_t service) const {
  rendezvous::ServiceHost host{setup_.hosted, {}};
  if (!setup_.hosted) return host;
  const std::string& where = agents_[agent].endpoints[agents_[agent].place];
  if (where != kEndpoint) host.service = where;
  host.presence = {absl::StrCat(where.substr(0, where.find(':')), ":", 1 + agents_[service].job),
                   services_[service].owner};
  return host;
}

/// Keeps the process of an ended job until every node has learned the outcome.
void JobSimulation::Linger(size_t index, uint64_t id) {
  const Service& service = services_[index];
  if (service.id != id) return;
  if (service.jobs->InEnded().empty()) return KillService(index);
  At(milliseconds(50), [this, index, id] { Linger(index, id); });
}

void JobSimulation::NoteKnown(size_t index) {
  for (const auto& [job_id, job] : services_[index].jobs->jobs()) {
    if (job.last_generation()) services_[index].known[job_id] = job.last_generation()->generation;
  }
}

void JobSimulation::ReadWrittenDown(Service& service) {
  if (setup_.lose_file) return;
  std::vector<rendezvous::RememberedEnd> ends;
  for (const auto& [job_id, end] : ends_) ends.push_back(end);
  service.jobs->Remember(file_, ends);
  for (const auto& [job_id, job] : file_)
    service.kept[job_id] = {job.generation.generation, job.verified.size(), rendezvous::DigestOf(job.spares)};
}

/// Saves the state, like Registrar and StateFolder.
void JobSimulation::WriteDown(size_t index, const std::string& job_id) {
  Service& service = services_[index];
  const auto job = service.jobs->jobs().find(job_id);
  if (index != 0 || setup_.services > 1) return;
  if (job == service.jobs->jobs().end()) {
    const auto end = service.jobs->LastEnd(job_id);
    const auto known = file_.find(job_id);
    const bool of_it =
        end && known != file_.end() && known->second.generation.incarnation == end->run.incarnation;
    if ((setup_.hosted && !of_it) || service.kept.erase(job_id) == 0) return;
    file_.erase(job_id);
    if (end) ends_[job_id] = *end;
    return;
  }
  if (const auto& outcome = job->second.outcome()) {
    if (service.kept.erase(job_id) == 0) return;
    file_.erase(job_id);
    ends_[job_id] = {
        job_id, {job->second.incarnation(), job->second.last_number(), outcome->success}, *outcome};
  } else if (job->second.IsKnownToRun()) {
    const rendezvous::Assignment& last = *job->second.last_generation();
    const std::tuple wanted(last.generation, job->second.verified().size(), job->second.spares().digest());
    if (std::exchange(service.kept[job_id], wanted) != wanted)
      file_[job_id] = {last, job->second.verified(), job->second.spares().services()};
  }
}

/// Like rendezvous::NoteEnd if another service ended the run.
void JobSimulation::NoteEndAtHost(const Agent& agent, const Exit& exit) {
  const Formed* last = FindFormed(agent.last_run);
  const auto known = file_.find(settings_[agent.job].job_id);
  if (!setup_.hosted || agent.node != 0 || last == nullptr || known == file_.end()) return;
  if (known->second.generation.incarnation != last->incarnation) return;
  const rendezvous::JobOutcome outcome = exit.outcome.value_or(rendezvous::JobOutcome());
  ends_[known->first] = {
      known->first, {last->incarnation, last->generation.number, outcome.success}, outcome};
  file_.erase(known);
}

/// Tells the probed service who probes, if that service stands by.
void JobSimulation::AskAs(size_t index, size_t other, const rendezvous::ProbeRequest& wanted) {
  if (!setup_.hosted || index == 0) return;
  rendezvous::ProbeResult heard;
  heard.heard = true;
  heard.peers.push_back({.endpoint = services_[index].endpoint,
                         .generation = wanted.generation,
                         .authority = wanted.authority,
                         .incarnation = wanted.incarnation});
  At(Delay(20), [this, other, id = services_[other].id, job_id = wanted.job_id, heard] {
    AsService(other, id, [this, other, job_id, heard] { StepService(other, job_id, {"", heard}); });
  });
}

// ---- the agents ----

void JobSimulation::MoveOn(Agent& agent) { agent.place = (agent.place + 1) % agent.endpoints.size(); }

void JobSimulation::MoveTo(Agent& agent, const std::string& endpoint) {
  std::vector<std::string>& list = agent.endpoints;
  agent.place = static_cast<size_t>(std::find(list.begin(), list.end(), endpoint) - list.begin());
  if (agent.place == list.size()) list.push_back(endpoint);
}

void JobSimulation::OnMembership(Agent& agent, const rendezvous::Assignment& generation) {
  agent.heirs.clear();
  rendezvous::AppendServices(generation, &agent.heirs);
  // Like Hosting.
  Service& own = services_[agent.node];
  if (!setup_.hosted || agent.node != 0 || own.owner != agent.incarnation) return;
  const std::string& job_id = settings_[agent.job].job_id;
  if (!own.jobs->AdoptMembership(job_id, generation)) return;
  file_[job_id] = {generation, {}};
  own.kept[job_id] = {generation.generation, 0, 0};
}

void JobSimulation::MindHost(size_t index) {
  Agent& agent = agents_[index];
  if (!setup_.hosted || agent.incarnation == 0 || agent.looking) return;
  const TimePoint now = NowOn(agent.node);
  if (agent.watch->TakeOver(now)) TakeOver(index);
  if (agent.looking) return;  // since the stream's end
  if (const auto host = agent.watch->Look(now)) {
    agent.looking = true;
    rendezvous::ProbeResult seen;
    LookAtMember(agent.node, kHost, host->presence, &seen);
    HostWatch::Found found{seen.alive.contains(kHost), seen.dead.contains(kHost)};
    if (!host->service.empty() && Reach(agent.node, NodeAt(host->service)))
      found.refused = !ServiceAt(host->service);
    const bool silent = !found.alive && !found.dead && !found.refused;
    return At(silent ? milliseconds(700) : Delay(700),
              [this, index, host, found, incarnation = agent.incarnation] {
                Awake(index, incarnation, [this, index, host, found] {
                  agents_[index].looking = false;
                  agents_[index].watch->OnLooked(*host, found, NowOn(index));
                  MindHost(index);
                });
              });
  }
  const uint64_t timer = agent.watch_timer = ++ids_;
  const auto next = agent.watch->NextDeadline();
  if (!next) return;
  At(std::max<Duration>(milliseconds(10), UntilOn(agent.node, *next)),
     [this, index, timer, incarnation = agent.incarnation] {
       Awake(index, incarnation, [this, index, timer] {
         if (agents_[index].watch_timer == timer) MindHost(index);
       });
     });
}

void JobSimulation::TakeOver(size_t index) {
  Agent& agent = agents_[index];
  if (agent.end.welcomed() || agent.over) return;
  Note(agent.node_id, " tries the services of other nodes");
  agent.end.OnHostDead(NowOn(index) - TimePoint());
  std::vector<std::string> heirs = agent.heirs;
  if (!agent.watch->proven_dead()) {
    const size_t host = NodeAt(agent.watch->host().presence.endpoint);
    std::erase_if(heirs, [&](const std::string& heir) { return NodeAt(heir) == host; });
  }
  MoveTo(agent, kEndpoint);
  for (const std::string& heir : heirs) MoveTo(agent, heir);
  if (!heirs.empty()) MoveTo(agent, heirs.front());
  if (agent.connection == 0) return;
  agent.redirected = true;
  End(agent.connection, By::kAgent);
}

}  // namespace mtrun::launcher
