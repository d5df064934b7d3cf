// The agent's core, second half: workers over generations, and how they end.
#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/agent_core.h"
#include "launcher/worker_environment.h"

namespace mtrun::launcher {
namespace {

std::string RankRange(const rendezvous::Member& member) {
  if (member.workers == 1) return absl::StrCat("rank ", member.first_rank);
  return absl::StrCat("ranks ", member.first_rank, "-", member.first_rank + member.workers - 1);
}

std::string FormationText(const rendezvous::Assignment& assignment, const rendezvous::Member& self,
                          int max_restarts) {
  const size_t nodes = assignment.members.size();
  std::string text = absl::StrCat("generation ", assignment.generation.number, " formed: ", nodes,
                                  nodes == 1 ? " node, " : " nodes, ", "world size ", assignment.world_size,
                                  "; this is node ", self.node_rank, " with ", RankRange(self), "; master ",
                                  assignment.master_address, ":", assignment.master_port);
  if (assignment.restart_count > 0) absl::StrAppend(&text, "; restart ", assignment.restart_count);
  // Beyond the budget some have been given back.
  if (assignment.restart_count > 0 && assignment.restart_count <= max_restarts)
    absl::StrAppend(&text, " of ", max_restarts);
  return text;
}

}  // namespace

// ---- generations ----

void AgentCore::Enter(const rendezvous::Assignment& assignment, size_t member) {
  const rendezvous::Member& self = assignment.members[member];
  const auto count = static_cast<size_t>(self.workers);
  MT_CHECK(workers_.empty() || workers_.size() == count || (config_.warm_up && count <= workers_.size()))
      << Describe();
  assignment_ = assignment;
  restart_count_ = assignment.restart_count;
  last_number_ = std::max(last_number_, assignment.generation.number);
  member_ = member;
  last_.reset();
  failure_.reset();
  break_reported_ = false;
  reported_step_.reset();
  offered_ = self.workers;  // what became ready since then is offered again
  phase_ = Phase::kRunning;
  Log(log::Level::kInfo, FormationText(assignment, self, config_.max_restarts));
  if (workers_.empty()) workers_.assign(count, Worker{.life = Worker::Life::kGone});
  ChooseMembers(count);
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    const int local_rank = static_cast<int>(i);
    if (!worker.member()) continue;
    if (worker.life == Worker::Life::kRunning) {
      Moved(local_rank);
      if (worker.said_hello) TellAssignment(local_rank);
      continue;
    }
    worker = Worker{.life = worker.life, .due = true, .rank = worker.rank, .moved = now_};
    if (worker.life == Worker::Life::kGone) continue;
    Emit(SignalWorker{local_rank, SIGKILL});
    start_deadline_ = now_ + kKillPatience;
  }
  StartDueWorkers();
}

void AgentCore::TellAssignment(int local_rank) {
  const int place = Find(local_rank)->rank - assignment_->members[member_].first_rank;
  Emit(SendToWorker{local_rank, MakeChannelAssignment(*assignment_, member_, local_rank, place)});
}

void AgentCore::StartDueWorkers() {
  if (config_.warm_up) return StartFreshWorkers();
  const bool presumed = Cooperative();
  std::vector<int> ready;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].due || workers_[i].life != Worker::Life::kGone) continue;
    ready.push_back(static_cast<int>(i));
    workers_[i] = Worker{.presumed = presumed, .rank = workers_[i].rank, .moved = now_};
  }
  if (ready.empty()) return;
  if (std::none_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.due; }))
    start_deadline_.reset();
  Emit(StartWorkers{*assignment_, member_, std::move(ready)});
}

void AgentCore::GiveUpOnLeftovers() {
  Log(log::Level::kError, "what a dead worker left does not even end on SIGKILL; starting its successor");
  start_deadline_.reset();
  for (Worker& worker : workers_) {
    if (worker.due) worker.life = Worker::Life::kGone;
  }
}

void AgentCore::Regroup() {
  last_ = std::exchange(assignment_, std::nullopt);
  phase_ = Phase::kRegrouping;
  start_deadline_.reset();
  for (Worker& worker : workers_) {
    worker.said_done = worker.exited_well = worker.due = false;
    if (worker.life != Worker::Life::kRunning) worker.rank = -1;
  }
}

rendezvous::WorkerFailure AgentCore::MakeFailure(const WorkerExited& event) const {
  const Worker& worker = workers_[static_cast<size_t>(event.local_rank)];
  rendezvous::WorkerFailure failure;
  failure.host = config_.offer.host;
  failure.rank = worker.rank;
  failure.local_rank = event.local_rank;
  failure.pid = event.pid;
  failure.exit_code = event.exit_code;
  failure.signal = event.signal;
  failure.log_file = event.log_file;
  failure.message = event.message;
  if (worker.hung)
    failure.message = absl::StrCat("it had stood still for ", HumanDuration(config_.hang_timeout),
                                   " (--hang_timeout), so mtrun killed it");
  failure.wall_time = event.wall_time;
  failure.failed_at_ns = event.failed_at_ns;
  failure.early = !worker.said_ready;
  return failure;
}

void AgentCore::OnFailedWorker(const WorkerExited& event) {
  ReportFailure(event);
  // While they regroup, a node without a survivor simply starts all of them in the next generation.
  const bool others_live_on = phase_ == Phase::kRegrouping || Cooperative();
  if (!others_live_on) return BeginStop(SIGTERM, Next::kVerdict);
  Emit(SignalWorker{event.local_rank, SIGKILL});
}

void AgentCore::ReportFailure(const WorkerExited& event) {
  const rendezvous::WorkerFailure failure = MakeFailure(event);
  const std::string log_file =
      event.log_file.empty() ? "" : absl::StrCat("; its standard error: ", event.log_file);
  // The first one of a generation is what the service answers about, for everybody to read.
  const bool will_be_said = assignment_ && !failure_ && connected_;
  Log(will_be_said ? log::Level::kDebug : log::Level::kError,
      absl::StrCat(rendezvous::Describe(failure), log_file));
  if (failure_) return;
  failure_ = failure;
  const rendezvous::Generation generation = assignment_ ? assignment_->generation : last_->generation;
  Emit(SendToService{rendezvous::WorkerFailed{generation, failure}});
}

void AgentCore::ReportBroken(int local_rank, const std::string& why) {
  if (!assignment_ || break_reported_) return;
  break_reported_ = true;
  Emit(SendToService{rendezvous::CollectivesBroken{assignment_->generation, Find(local_rank)->rank, why}});
}

void AgentCore::FinishIfAllDone() {
  if (phase_ != Phase::kRunning) return;
  const auto done = [](const Worker& worker) { return worker.done() || !worker.member(); };
  if (!std::all_of(workers_.begin(), workers_.end(), done)) return;
  phase_ = Phase::kFinished;
  Emit(SendToService{Finished()});
}

rendezvous::WorkersFinished AgentCore::Finished() const {
  const bool safe = std::all_of(workers_.begin(), workers_.end(),
                                [](const Worker& worker) { return worker.said_done || !worker.member(); });
  return {assignment_->generation, safe};
}

// ---- ends ----

void AgentCore::BeginDrain(int signal, const std::string& why) {
  Log(log::Level::kWarning, absl::StrCat(why, ": the workers finish their step and leave, SIGKILL after ",
                                         HumanDuration(config_.shutdown_timeout)));
  drain_deadline_ = now_ + config_.shutdown_timeout;
  TellWorkers(channel::Drain{ToSeconds(config_.shutdown_timeout), why});
  Emit(SignalWorkers{signal});
}

void AgentCore::OnExitWhileDraining(const WorkerExited& event) {
  const Worker& worker = *Find(event.local_rank);
  const int code = event.signal != 0 ? 128 + event.signal : event.exit_code;
  if (code == 0 || code == 128 + last_signal_ || worker.said_leaving || worker.said_done) return;
  Log(log::Level::kError, rendezvous::Describe(MakeFailure(event)));
  // It tore the step that the others wanted to finish.
  LeaveAfterDrain(last_signal_);
}

void AgentCore::SettleDrain() {
  if (!Draining()) return;
  if (std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.out(); }))
    LeaveAfterDrain(0);
}

void AgentCore::LeaveAfterDrain(int signal) {
  SayGoodbye(Leaves());
  exit_ = Exit{128 + last_signal_, std::nullopt};
  drained_ = signal == 0;
  BeginStop(signal, Next::kExit);
  stop_deadline_ = *drain_deadline_;
}

void AgentCore::BeginStop(int signal, Next next) {
  next_ = next;
  if (!AllAtLeast(Worker::Life::kGone) && signal != 0) Emit(SignalWorkers{signal});
  if (phase_ == Phase::kStopping) return;
  phase_ = Phase::kStopping;
  killed_ = false;
  start_deadline_.reset();
  stop_deadline_ = now_ + config_.shutdown_timeout;
}

void AgentCore::Kill() {
  Emit(SignalWorkers{SIGKILL});
  killed_ = true;
  stop_deadline_ = now_ + kKillPatience;
}

void AgentCore::GiveUp(std::string why) {
  Log(log::Level::kError, std::move(why));
  if (!exit_) exit_ = Exit{1, std::nullopt};
  BeginStop(SIGTERM, Next::kExit);
}

void AgentCore::Settle() {
  if (phase_ == Phase::kRunning || (phase_ == Phase::kRegrouping && config_.warm_up)) StartDueWorkers();
  if (config_.warm_up) OfferWhatIsReady();
  SettleDrain();
  if (phase_ != Phase::kStopping) return;
  // After a success nobody waits for what a program left behind in the background.
  const bool success = exit_ && exit_->code == 0;
  if (AllAtLeast(success ? Worker::Life::kExited : Worker::Life::kGone)) FinishStop();
}

void AgentCore::FinishStop() {
  stop_deadline_.reset();
  const auto left_well = [](const Worker& w) {
    return !w.member() || (w.exited_with_0 && (w.said_leaving || w.said_done));
  };
  // Others go on: for a scheduler this node has done its part.
  const auto member = [](const Worker& w) { return w.member(); };
  if (drained_ && std::any_of(workers_.begin(), workers_.end(), member) &&
      std::all_of(workers_.begin(), workers_.end(), left_well))
    exit_->code = 0;
  if (!workers_.empty()) Emit(CleanUp{});
  workers_.clear();
  switch (next_) {
    case Next::kVerdict:
      phase_ = Phase::kStopped;
      break;
    case Next::kRejoin:
      phase_ = Phase::kJoining;
      assignment_.reset();
      last_.reset();
      failure_.reset();
      config_.warm_up ? BeginWarmUp() : MakeOffer(true);
      break;
    case Next::kExit:
      phase_ = Phase::kEnded;
      Emit(*exit_);
      break;
  }
}

// ---- looking things up, telling ----

void AgentCore::SayGoodbye(const std::string& why) {
  if (!std::exchange(left_, true)) Emit(SendToService{rendezvous::Leaving{why}});
}

void AgentCore::MakeOffer(bool fresh) {
  rendezvous::Offer offer = config_.offer;
  if (assignment_) offer.holds = assignment_->generation;
  offer.workers = offered_ = WorkersToOffer();
  Emit(SendOffer{offer, fresh});
}

void AgentCore::TellWorkers(const channel::AgentMessage& message) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].said_hello && workers_[i].life == Worker::Life::kRunning) {
      Emit(SendToWorker{static_cast<int>(i), message});
    }
  }
}

bool AgentCore::AllAtLeast(Worker::Life life) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const Worker& worker) { return worker.life >= life; });
}

bool AgentCore::AnyOut() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.member() && worker.out(); });
}

bool AgentCore::Cooperative() const {
  bool anybody = false;
  for (const Worker& worker : workers_) {
    if (worker.life != Worker::Life::kRunning) continue;
    if (!worker.regroups()) return false;
    anybody = anybody || worker.said_hello || config_.warm_up;
  }
  return anybody;
}

AgentCore::Worker* AgentCore::Find(int local_rank) {
  if (local_rank < 0 || static_cast<size_t>(local_rank) >= workers_.size()) return nullptr;
  return &workers_[static_cast<size_t>(local_rank)];
}

std::string AgentCore::Leaves() const {
  return absl::StrCat(config_.offer.host, " received ", SignalName(last_signal_));
}

}  // namespace mtrun::launcher
