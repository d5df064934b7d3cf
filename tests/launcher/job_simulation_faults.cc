// The simulated job: its faults, and their repair.
#include <algorithm>
#include <csignal>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "rendezvous/job/eviction.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/launcher/job_simulation.h"

namespace mtrun::launcher {

using std::chrono::seconds;

void JobSimulation::Freeze(size_t index) {
  agents_[index].frozen = true;
  At(Delay(3000), [this, index, incarnation = agents_[index].incarnation] {
    if (agents_[index].incarnation != incarnation) return;
    agents_[index].frozen = false;
    for (const auto& act : std::exchange(agents_[index].backlog, {})) At(Duration(1), act);
  });
}

bool JobSimulation::FreezeWorker(size_t index, int local_rank) {
  Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr || worker->frozen) return false;
  worker->frozen = true;
  At(Delay(4000), [this, index, local_rank, serial = worker->serial] {
    const Worker* w = FindWorker(index, local_rank);
    if (w != nullptr && w->serial == serial) ThawWorker(index, local_rank);
  });
  return true;
}

void JobSimulation::ThawWorker(size_t index, int local_rank) {
  Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr || !std::exchange(worker->frozen, false)) return;
  for (const auto& act : std::exchange(worker->backlog, {})) act();
}

/// Cuts one direction. Its connections either lose all data from then on, because TCP retries ever more
/// rarely, or deliver it late.
void JobSimulation::CutLink(size_t from, size_t to, TimePoint until, bool for_good) {
  network_.Cut(from, to, until);
  if (!for_good) return;
  for (auto& [id, connection] : connections_) {
    const size_t node = agents_[connection.agent].node;
    connection.up.dead |= node == from && connection.service == to;
    connection.down.dead |= node == to && connection.service == from;
  }
}

/// Cuts all links of a node.
void JobSimulation::CutOff(size_t node, TimePoint until, bool for_good) {
  for (size_t other = 0; other < std::max(agents_.size(), services_.size()); ++other) {
    if (other == node) continue;
    CutLink(node, other, until, for_good);
    CutLink(other, node, until, for_good);
  }
}

/// Ends agent, workers and service of the node without any notification or answer.
bool JobSimulation::LosePower(size_t index) {
  const size_t node = agents_[index].node;
  const TimePoint until = now_ + Delay(3500);
  const bool there = agents_[index].incarnation != 0;
  CutOff(node, until, /*for_good=*/true);
  if (there) Die(index);
  if (there && OneIn(2)) At(Delay(2500), [this, name = agents_[index].node_id] { EvictDead(name); });
  At(until - now_ + Delay(500), [this, index] { Boot(index); });
  if (node >= services_.size() || services_[node].id == 0) return there;
  KillService(node);
  At(until - now_ + Delay(500), [this, node] { BootService(node); });
  return true;
}

/// Tells every service of the eviction, like an operator who has seen that the host is off.
void JobSimulation::EvictDead(const std::string& node_id) {
  for (size_t i = 0; i < services_.size(); ++i) {
    if (services_[i].id == 0 || IsFrozen(i)) continue;
    for (const rendezvous::JobSettings& settings : settings_) {
      const auto& jobs = services_[i].jobs->jobs();
      const auto job = jobs.find(settings.job_id);
      if (job == jobs.end()) continue;
      const auto eviction = rendezvous::ChooseMember(job->second, node_id, NowOn(i));
      if (!eviction.ok()) continue;
      ++fired_[kEvicted];
      Note("operator: evicts ", node_id, " at service ", i);
      StepService(i, settings.job_id, {"", rendezvous::EvictionEvent(*eviction)});
    }
  }
}

/// Cuts one link of a node, or only the direction from the node.
bool JobSimulation::CutSome(size_t node, bool both_ways) {
  // Mostly a link to a service: agents do not talk to each other.
  const size_t others = OneIn(4) ? std::max(agents_.size(), services_.size()) : services_.size();
  const size_t other = random_() % others;
  if (other == node) return false;
  const TimePoint until = now_ + Delay(3500);
  const bool for_good = !OneIn(3), away = both_ways || OneIn(2);
  if (away) CutLink(node, other, until, for_good);
  if (both_ways || !away) CutLink(other, node, until, for_good);
  return true;
}

/// Pulls the cable just after the next Hello of the node, which starts a new stream for it.
bool JobSimulation::CutBehindHello(size_t index) {
  Agent& agent = agents_[index];
  if (agent.incarnation == 0) return false;
  agent.cut_behind_hello = true;
  if (agent.connection != 0) End(agent.connection, By::kNetwork);
  return true;
}

bool JobSimulation::BreakCollectives(size_t index, int local_rank) {
  Worker* worker = FindWorker(index, local_rank);
  if (!setup_.cooperative || worker == nullptr || worker->frozen || worker->in == nullptr) return false;
  Say(index, local_rank, channel::Broken{worker->in->generation, "aborted"});
  TakeNext(*worker);
  return true;
}

/// Returns whether each job has at least one living member.
bool JobSimulation::MembersLive() const {
  std::set<size_t> jobs;
  for (const Agent& agent : agents_) {
    if (agent.incarnation == 0) continue;
    const bool stays = !agent.frozen && !agent.said_leaving && !agent.core->draining();
    if (stays && agent.core->assignment()) jobs.insert(agent.job);
  }
  return jobs.size() == settings_.size();
}

bool JobSimulation::LoseService(size_t service, bool for_good) {
  if (services_[service].id == 0 || setup_.hosted) return false;
  const auto lost = [](const Service& s) { return s.lost; };
  const auto lost_before = std::count_if(services_.begin(), services_.end(), lost);
  if (for_good && lost_before + 1 >= static_cast<int>(services_.size())) return false;
  const bool needed = service == 0 && !setup_.begin_without_first;
  if (for_good && (!setup_.lose_services || (needed && !MembersLive()) || run_ < setup_.runs)) return false;
  KillService(service);
  services_[service].lost = for_good;
  if (for_good) return true;
  At(Delay(2500), [this, service] { BootService(service); });
  return true;
}

bool JobSimulation::Do(size_t kind, size_t index) {
  Agent& agent = agents_[index];
  const bool there = agent.incarnation != 0;
  const bool ends_agent = kind == 0 || kind == 7 || kind == 12;
  if (ends_agent && services_[0].lost && !setup_.begin_without_first) return false;
  const int worker = agent.workers.empty() ? 0 : static_cast<int>(random_() % agent.workers.size());
  switch (kind) {
    case 0:
      At(Delay(2500), [this, index] { Boot(index); });
      if (there) Die(index);
      return there;
    case 1:
      if (there && !agent.frozen) return Freeze(index), true;
      return false;
    case 2:
      return CutOff(agent.node, now_ + Delay(3500), !OneIn(3)), true;
    case 3:
      if (there && agent.connection != 0) return End(agent.connection, By::kNetwork), true;
      return false;
    case 4:
      return LoseService(random_() % services_.size(), /*for_good=*/false);
    case 5:
      if (!there || agent.workers.empty()) return false;
      NoteFailed(agent);
      return EndWorker(index, worker, 0, SIGKILL), true;
    case 6:
      return there && BreakCollectives(index, worker);
    case 7:
      if (there) Awake(index, agent.incarnation, [this, index] { Feed(index, SignalReceived{SIGTERM}); });
      At(Delay(2500), [this, index] { Boot(index); });
      return there;
    case 8:
      return CutSome(agent.node, /*both_ways=*/true);
    case 9:
      return CutSome(agent.node, /*both_ways=*/false);
    case 10:
      return FreezeWorker(index, worker);
    case 12:
      return LosePower(index);
    case 13:
      return LoseService(OneIn(2) ? 0 : random_() % services_.size(), /*for_good=*/true);
    case 14:
      return CutBehindHello(index);
    default:
      if (there) agent.muted_until = std::max(agent.muted_until, now_ + Delay(3500));
      return there;
  }
}

void JobSimulation::Fault() {
  if (broken_) return;
  const size_t index = random_() % agents_.size();
  const size_t kind = random_() % std::size(kFaults);
  if (!Do(kind, index)) return;
  ++fired_[kFaults[kind]];
  Note("FAULT ", kFaults[kind], " node ", agents_[index].node);
}

void JobSimulation::Mend() {
  Note("MEND");
  network_.MendAll();
  if (alone_) CutOff(*alone_, now_ + std::chrono::hours(1), /*for_good=*/true);
  for (size_t i = 0; i < services_.size(); ++i) BootService(i);
  for (size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].frozen = agents_[i].cut_behind_hello = false;
    agents_[i].muted_until = now_;
    for (const auto& act : std::exchange(agents_[i].backlog, {})) At(Duration(1), act);
    for (int worker = 0; worker < setup_.workers; ++worker) ThawWorker(i, worker);
    // A node that is leaving is replaced when it is gone.
    for (int second = 0; second < 12; ++second) {
      At(seconds(second), [this, i] {
        if (finishing_ < run_ || ended_[agents_[i].job].empty()) Boot(i);
      });
    }
  }
}

}  // namespace mtrun::launcher
