// The simulated job: worker processes, the messages to them and from them.
#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/launcher/job_simulation.h"

namespace mtrun::launcher {

using std::chrono::milliseconds;

JobSimulation::Worker* JobSimulation::FindWorker(size_t index, int local_rank) {
  std::vector<Worker>& workers = agents_[index].workers;
  const auto place = static_cast<size_t>(local_rank);
  return place < workers.size() && workers[place].alive ? &workers[place] : nullptr;
}

void JobSimulation::AsWorker(size_t index, int local_rank, Duration delay, std::function<void()> act) {
  const Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr) return;
  At(delay, [this, index, local_rank, act = std::move(act), serial = worker->serial] {
    Worker* w = FindWorker(index, local_rank);
    if (w == nullptr || w->serial != serial || w->doomed) return;
    if (w->frozen)
      return w->backlog.push_back(
          [this, index, local_rank, act] { AsWorker(index, local_rank, Duration(1), act); });
    act();
  });
}

void JobSimulation::Start(size_t index, const StartWorkers& effect) {
  Agent& agent = agents_[index];
  agent.workers.resize(static_cast<size_t>(setup_.workers));
  const rendezvous::Generation& generation = effect.assignment.generation;
  for (const int local_rank : effect.local_ranks) {
    if (!effect.warm_up && !starts_.insert({agent.node_id, local_rank, generation}).second)
      Broken(absl::StrCat(agent.node_id, " starts worker ", local_rank, " twice in ",
                          channel::ToText(generation)));
    StartOne(index, local_rank);
    // An ordinary program starts at once.
    if (!setup_.cooperative) agent.workers[static_cast<size_t>(local_rank)].in = FindFormed(generation);
  }
}

void JobSimulation::StartOne(size_t index, int local_rank) {
  Worker& worker = agents_[index].workers[static_cast<size_t>(local_rank)];
  if (worker.alive && !worker.doomed)
    Broken(absl::StrCat(agents_[index].node_id, " starts a second worker ", local_rank));
  worker = Worker();
  worker.alive = true;
  worker.serial = ++ids_;
  static constexpr Temper kTempers[] = {Temper::kSlow, Temper::kSlow, Temper::kIgnores, Temper::kSticks};
  if (const uint64_t draw = random_() % 32; draw < std::size(kTempers)) worker.temper = kTempers[draw];
  AsWorker(index, local_rank, Delay(300), [this, index, local_rank] {
    Say(index, local_rank, channel::Hello{.cooperative = setup_.cooperative});
  });
  if (!setup_.warm_up) return;
  AsWorker(index, local_rank, milliseconds(300) + Delay(300),
           [this, index, local_rank] { Say(index, local_rank, channel::Ready{}); });
}

/// Delivers a message to a cooperative worker. It reacts to a graceful end after the next step: all members
/// leave after the same one.
void JobSimulation::Tell(size_t index, int local_rank, const channel::AgentMessage& message) {
  Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr || !setup_.cooperative) return;
  if (const auto* assignment = std::get_if<channel::Assignment>(&message)) {
    const Formed* formed = FindFormed(assignment->generation);
    (worker->leaves ? worker->next : worker->in) = formed;
  } else if (const auto* dissolved = std::get_if<channel::Dissolved>(&message)) {
    if (worker->in == nullptr || worker->in->generation != dissolved->generation) return;
    if (!dissolved->graceful) return TakeNext(*worker);
    worker->leaves = true;
    AsWorker(index, local_rank, Delay(200), [this, index, local_rank, in = worker->in] {
      Worker& w = *FindWorker(index, local_rank);
      if (w.in == in && w.leaves) TakeNext(w);
    });
  } else if (std::holds_alternative<channel::Stop>(message)) {
    worker->in = worker->next = nullptr;
    AsWorker(index, local_rank, Delay(200),
             [this, index, local_rank] { EndWorker(index, local_rank, 0, 0); });
  }
}

void JobSimulation::TakeNext(Worker& worker) {
  worker.in = std::exchange(worker.next, nullptr);
  worker.leaves = false;
}

void JobSimulation::Say(size_t index, int local_rank, channel::WorkerMessage message) {
  Agent& agent = agents_[index];
  if (FindWorker(index, local_rank) == nullptr) return;
  Awake(index, agent.incarnation, [this, index, local_rank, message = std::move(message)] {
    Feed(index, WorkerSaid{local_rank, message});
  });
}

void JobSimulation::SignalOne(size_t index, int local_rank, int signal) {
  const Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr) return;
  if (signal == SIGKILL) return KillOne(index, local_rank);
  if (worker->temper == Temper::kIgnores) return;
  const bool leaves = setup_.cooperative && !OneIn(8);
  const Duration takes = worker->temper == Temper::kSlow ? milliseconds(800) + Delay(3200) : Delay(800);
  AsWorker(index, local_rank, takes, [this, index, local_rank, signal, leaves] {
    if (leaves) Say(index, local_rank, channel::Leaving{"told to"});
    EndWorker(index, local_rank, leaves ? 0 : 128 + signal, 0);
  });
}

void JobSimulation::KillOne(size_t index, int local_rank) {
  Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr || worker->doomed) return;
  worker->doomed = true;
  const bool sticks = worker->temper == Temper::kSticks;
  At(sticks ? Delay(9000) : Delay(5), [this, index, local_rank, serial = worker->serial] {
    const Worker* w = FindWorker(index, local_rank);
    if (w != nullptr && w->serial == serial) EndWorker(index, local_rank, 0, SIGKILL);
  });
}

/// The guardian ends an ordinary program with its lease, even while the agent is frozen.
void JobSimulation::SetAlarm(size_t index) {
  Agent& agent = agents_[index];
  const bool wanted = agent.core->workers_die_with_lease();
  if (wanted && agent.alarm != 0 && agent.alarm_at == agent.lease_ends) return;
  agent.alarm = wanted ? ++ids_ : 0;
  agent.alarm_at = agent.lease_ends;
  if (wanted) Ring(index, agent.alarm);
}

void JobSimulation::Ring(size_t index, uint64_t alarm) {
  const Agent& agent = agents_[index];
  At(std::max(UntilOn(agent.node, agent.alarm_at), agent.muted_until - now_) + Delay(3),
     [this, index, alarm] {
       const Agent& a = agents_[index];
       if (a.alarm != alarm) return;
       if (a.muted_until > now_) return Ring(index, alarm);
       Note(a.node_id, "'s guardian kills the workers");
       for (int i = 0; i < static_cast<int>(a.workers.size()); ++i) {
         if (Worker* worker = FindWorker(index, i)) worker->by_lease = true;
         KillOne(index, i);
       }
     });
}

void JobSimulation::EndWorker(size_t index, int local_rank, int code, int signal) {
  Worker* worker = FindWorker(index, local_rank);
  if (worker == nullptr) return;
  worker->alive = false;
  const uint64_t incarnation = agents_[index].incarnation;
  const auto is_current = [this, index, place = static_cast<size_t>(local_rank), serial = worker->serial] {
    return place < agents_[index].workers.size() && agents_[index].workers[place].serial == serial;
  };
  WorkerExited exited{.local_rank = local_rank, .pid = 7, .exit_code = code, .signal = signal};
  exited.by_lease = worker->by_lease && signal == SIGKILL;
  Awake(index, incarnation, [this, index, exited, is_current] {
    if (is_current()) Feed(index, exited);
  });
  At(Delay(50), [this, index, local_rank, incarnation, is_current] {
    Awake(index, incarnation, [this, index, local_rank, is_current] {
      if (is_current()) Feed(index, WorkerGone{local_rank});
    });
  });
}

}  // namespace mtrun::launcher
