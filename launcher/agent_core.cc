#include "launcher/agent_core.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/worker_environment.h"

namespace mtrun::launcher {
namespace {

const char* NameOf(AgentCore::Phase phase) {
  static constexpr const char* kNames[] = {"joining", "running", "finished", "stopping", "stopped", "ended"};
  return kNames[static_cast<int>(phase)];
}

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
  if (assignment.restart_count > 0)
    absl::StrAppend(&text, "; restart ", assignment.restart_count, " of ", max_restarts);
  return text;
}

}  // namespace

AgentCore::AgentCore(AgentConfig config, TimePoint now)
    : config_(std::move(config)), now_(now), join_deadline_(now + config_.join_timeout) {}

Effects AgentCore::Step(const Event& event, TimePoint now) {
  CheckInvariants();
  MT_CHECK(now >= now_) << Describe();
  if (phase_ == Phase::kEnded) return {};
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  CheckInvariants();
  return std::exchange(effects_, {});
}

std::optional<TimePoint> AgentCore::NextDeadline() const {
  if (phase_ == Phase::kStopping) return stop_deadline_;
  if (phase_ == Phase::kJoining) return join_deadline_;
  return std::nullopt;
}

void AgentCore::On(const rendezvous::ServiceEvent& event) {
  std::visit([this](const auto& e) { OnService(e); }, event);
}

void AgentCore::On(const SessionConnected&) {
  const bool first = join_deadline_.has_value();
  join_deadline_.reset();
  if (phase_ == Phase::kJoining) return MakeOffer(first);
  if (next_ != Next::kVerdict && phase_ == Phase::kStopping)
    return;  // a new offer or the end comes after the stop
  // The service may be a new one that knows nothing: give back what it had from us.
  MakeOffer(false);
  if (failure_) Emit(SendToService{rendezvous::WorkerFailed{assignment_->generation, *failure_}});
  if (phase_ == Phase::kFinished) Emit(SendToService{Finished()});
}

void AgentCore::On(const SessionDisconnected& event) { Log(log::Level::kWarning, event.why); }

void AgentCore::On(const SessionFailed& event) { GiveUp(event.why); }

void AgentCore::On(const WorkerExited& event) {
  if (event.local_rank < 0 || static_cast<size_t>(event.local_rank) >= workers_.size()) return;
  Worker& worker = workers_[static_cast<size_t>(event.local_rank)];
  MT_CHECK(worker.life == Worker::Life::kRunning) << "a second exit; " << Describe();
  worker.life = Worker::Life::kExited;
  const bool failed = (event.signal != 0 || event.exit_code != 0) && !worker.said_done;
  if (phase_ != Phase::kRunning && phase_ != Phase::kFinished) return;  // told to go: not a failure
  if (failed) return ReportFailure(event);
  worker.exited_well = true;
  FinishIfAllDone();
}

void AgentCore::On(const WorkerGone& event) {
  if (event.local_rank < 0 || static_cast<size_t>(event.local_rank) >= workers_.size()) return;
  Worker& worker = workers_[static_cast<size_t>(event.local_rank)];
  MT_CHECK(worker.life == Worker::Life::kExited) << "gone before its exit; " << Describe();
  worker.life = Worker::Life::kGone;
}

void AgentCore::On(const WorkerSaid& event) {
  if (event.local_rank < 0 || static_cast<size_t>(event.local_rank) >= workers_.size()) return;
  Worker& worker = workers_[static_cast<size_t>(event.local_rank)];
  if (const auto* hello = std::get_if<channel::Hello>(&event.message)) {
    worker.said_hello = true;
    worker.cooperative = hello->cooperative;
    Emit(SendToWorker{event.local_rank, MakeChannelAssignment(*assignment_, member_, event.local_rank)});
  } else if (const auto* leaving = std::get_if<channel::Leaving>(&event.message)) {
    Log(log::Level::kInfo, absl::StrCat("local rank ", event.local_rank, " is leaving: ", leaving->why));
  } else if (std::holds_alternative<channel::Done>(event.message)) {
    // An ordinary program is judged by how it exits.
    worker.said_done = worker.cooperative;
    FinishIfAllDone();
  }
}

void AgentCore::On(const SignalReceived& event) {
  if (first_signal_) {
    if (now_ - *first_signal_ < kSignalEcho && event.signal == last_signal_) return;
    Log(log::Level::kWarning,
        absl::StrCat("received ", SignalName(event.signal), " again: killing the workers"));
    Emit(SignalWorkers{SIGKILL});
    killed_ = true;
    stop_deadline_ = now_ + kKillPatience;
    return;
  }
  first_signal_ = now_;
  last_signal_ = event.signal;
  const std::string why = absl::StrCat("received ", SignalName(event.signal));
  Log(log::Level::kWarning, workers_.empty() ? why
                                             : absl::StrCat(why, ": stopping the workers, SIGKILL after ",
                                                            HumanDuration(config_.shutdown_timeout)));
  Emit(SendToService{rendezvous::Leaving{absl::StrCat(config_.offer.host, " ", why)}});
  if (!exit_) exit_ = Exit{128 + event.signal, std::nullopt};
  TellWorkers(channel::Drain{ToSeconds(config_.shutdown_timeout), why});
  // In a stop that is already going on this adds the new signal; its deadline stays.
  BeginStop(event.signal, Next::kExit);
}

void AgentCore::On(const Tick&) {
  if (phase_ == Phase::kJoining && join_deadline_ && now_ >= *join_deadline_) {
    return GiveUp(absl::StrCat("no rendezvous service answered at ", config_.endpoint, " within ",
                               HumanDuration(config_.join_timeout),
                               " (--rdzv_conf join_timeout); is mtrun running on the endpoint's host?"));
  }
  if (phase_ != Phase::kStopping || !stop_deadline_ || now_ < *stop_deadline_) return;
  if (!killed_) {
    Log(log::Level::kWarning, absl::StrCat("some workers are still there after ",
                                           HumanDuration(config_.shutdown_timeout), ": killing them"));
    Emit(SignalWorkers{SIGKILL});
    killed_ = true;
    stop_deadline_ = now_ + kKillPatience;
    return;
  }
  Log(log::Level::kError, "some workers do not even end on SIGKILL; going on without waiting for them");
  for (Worker& worker : workers_) worker.life = Worker::Life::kGone;
}

void AgentCore::OnService(const rendezvous::Assigned& event) {
  const rendezvous::Assignment& assignment = event.assignment;
  if (assignment_ && assignment_->generation == assignment.generation) return;  // confirms what we hold
  if (exit_) return;
  if (phase_ != Phase::kJoining) {
    Log(log::Level::kWarning,
        absl::StrCat("the service has moved on to generation ", assignment.generation.number));
    if (phase_ == Phase::kStopping) {
      next_ = Next::kRejoin;
      return;
    }
    return BeginStop(SIGTERM, Next::kRejoin);
  }
  const auto self = std::find_if(assignment.members.begin(), assignment.members.end(),
                                 [&](const auto& member) { return member.node_id == config_.offer.node_id; });
  if (self == assignment.members.end()) return;
  Start(assignment, static_cast<size_t>(self - assignment.members.begin()));
}

void AgentCore::OnService(const rendezvous::GenerationDissolved& event) {
  if (!assignment_ || assignment_->generation != event.generation || exit_) return;
  Log(log::Level::kInfo,
      absl::StrCat("generation ", event.generation.number, " is dissolved: ", event.reason));
  TellWorkers(channel::Dissolved{event.generation, event.reason});
  if (phase_ == Phase::kStopping) {
    next_ = Next::kRejoin;
  } else {
    BeginStop(SIGTERM, Next::kRejoin);
  }
}

void AgentCore::OnService(const rendezvous::JobEnded& event) {
  if (exit_) return;
  const rendezvous::JobOutcome& outcome = event.outcome;
  exit_ = Exit{outcome.exit_code, std::nullopt};
  if (outcome.success) {
    Log(log::Level::kInfo, absl::StrCat("the job has ended: ", outcome.reason));
    // Workers that are done but still closing down get the usual grace.
    return BeginStop(phase_ == Phase::kFinished ? 0 : SIGTERM, Next::kExit);
  }
  exit_->outcome = outcome;
  Log(log::Level::kError, absl::StrCat("the job has failed: ", outcome.reason));
  TellWorkers(channel::Stop{outcome.reason});
  if (phase_ == Phase::kStopping) {
    next_ = Next::kExit;
  } else {
    BeginStop(SIGTERM, Next::kExit);
  }
}

void AgentCore::OnService(const rendezvous::Refused& event) {
  GiveUp(absl::StrCat("refused by the job: ", event.reason));
}

void AgentCore::OnService(const rendezvous::Waiting& event) { Log(log::Level::kInfo, event.text); }

void AgentCore::Start(const rendezvous::Assignment& assignment, size_t member) {
  MT_CHECK(workers_.empty()) << Describe();
  assignment_ = assignment;
  member_ = member;
  failure_.reset();
  const rendezvous::Member& self = assignment.members[member];
  workers_.assign(static_cast<size_t>(self.workers), Worker{});
  phase_ = Phase::kRunning;
  Log(log::Level::kInfo, FormationText(assignment, self, config_.max_restarts));
  Emit(StartWorkers{assignment, member});
}

void AgentCore::ReportFailure(const WorkerExited& event) {
  rendezvous::WorkerFailure failure;
  failure.host = config_.offer.host;
  failure.rank = assignment_->members[member_].first_rank + event.local_rank;
  failure.local_rank = event.local_rank;
  failure.pid = event.pid;
  failure.exit_code = event.exit_code;
  failure.signal = event.signal;
  failure.log_file = event.log_file;
  failure.message = event.message;
  failure.wall_time = event.wall_time;
  failure_ = failure;
  const std::string log_file =
      event.log_file.empty() ? "" : absl::StrCat("; its standard error: ", event.log_file);
  Log(log::Level::kError, absl::StrCat(rendezvous::Describe(failure), log_file));
  Emit(SendToService{rendezvous::WorkerFailed{assignment_->generation, failure}});
  BeginStop(SIGTERM, Next::kVerdict);
}

void AgentCore::FinishIfAllDone() {
  if (phase_ != Phase::kRunning) return;
  if (!std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.done(); }))
    return;
  phase_ = Phase::kFinished;
  Emit(SendToService{Finished()});
}

rendezvous::WorkersFinished AgentCore::Finished() const {
  const bool safe =
      std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.said_done; });
  return {assignment_->generation, safe};
}

void AgentCore::BeginStop(int signal, Next next) {
  next_ = next;
  if (!AllAtLeast(Worker::Life::kGone) && signal != 0) Emit(SignalWorkers{signal});
  if (phase_ == Phase::kStopping) return;
  phase_ = Phase::kStopping;
  killed_ = false;
  stop_deadline_ = now_ + config_.shutdown_timeout;
}

void AgentCore::GiveUp(std::string why) {
  Log(log::Level::kError, std::move(why));
  if (!exit_) exit_ = Exit{1, std::nullopt};
  BeginStop(SIGTERM, Next::kExit);
}

bool AgentCore::AllAtLeast(Worker::Life life) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const Worker& worker) { return worker.life >= life; });
}

void AgentCore::Settle() {
  if (phase_ != Phase::kStopping) return;
  // After a success nobody waits for what a program left behind in the background.
  const bool success = exit_ && exit_->code == 0;
  if (AllAtLeast(success ? Worker::Life::kExited : Worker::Life::kGone)) FinishStop();
}

void AgentCore::FinishStop() {
  stop_deadline_.reset();
  if (!workers_.empty()) Emit(CleanUp{});
  workers_.clear();
  switch (next_) {
    case Next::kVerdict:
      phase_ = Phase::kStopped;
      break;
    case Next::kRejoin:
      phase_ = Phase::kJoining;
      assignment_.reset();
      failure_.reset();
      MakeOffer(true);
      break;
    case Next::kExit:
      phase_ = Phase::kEnded;
      Emit(*exit_);
      break;
  }
}

void AgentCore::MakeOffer(bool fresh) {
  rendezvous::Offer offer = config_.offer;
  if (assignment_) offer.holds = assignment_->generation;
  Emit(SendOffer{offer, fresh});
}

void AgentCore::TellWorkers(const channel::AgentMessage& message) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].said_hello && workers_[i].life == Worker::Life::kRunning) {
      Emit(SendToWorker{static_cast<int>(i), message});
    }
  }
}

void AgentCore::CheckInvariants() const {
  const bool has_workers = phase_ == Phase::kRunning || phase_ == Phase::kFinished;
  MT_CHECK(!has_workers || (assignment_ && !workers_.empty())) << Describe();
  MT_CHECK(phase_ != Phase::kJoining || (workers_.empty() && !assignment_)) << Describe();
  MT_CHECK(phase_ != Phase::kStopped || (workers_.empty() && assignment_ && failure_)) << Describe();
  MT_CHECK(phase_ != Phase::kEnded || (workers_.empty() && exit_)) << Describe();
  MT_CHECK(phase_ != Phase::kStopping || stop_deadline_) << Describe();
  MT_CHECK(phase_ != Phase::kStopping || (next_ == Next::kExit) == exit_.has_value()) << Describe();
  if (assignment_) {
    MT_CHECK(member_ < assignment_->members.size()) << Describe();
    MT_CHECK(assignment_->members[member_].node_id == config_.offer.node_id) << Describe();
  }
}

std::string AgentCore::Describe() const {
  std::string text = NameOf(phase_);
  if (assignment_) absl::StrAppend(&text, " generation ", assignment_->generation.number);
  static constexpr const char* kLives[] = {"running", "exited", "gone"};
  for (size_t i = 0; i < workers_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "; workers " : ", ", i, " ", kLives[static_cast<int>(workers_[i].life)],
                    workers_[i].done() ? " done" : "");
  }
  if (exit_) absl::StrAppend(&text, "; exits with ", exit_->code);
  return text;
}

}  // namespace mtrun::launcher
