#include "launcher/agent_core.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/worker_environment.h"

namespace mtrun::launcher {
namespace {

const char* NameOf(AgentCore::Phase phase) {
  static constexpr const char* kNames[] = {"joining",  "running", "finished", "regrouping",
                                           "stopping", "stopped", "ended"};
  return kNames[static_cast<int>(phase)];
}

}  // namespace

AgentCore::AgentCore(AgentConfig config, TimePoint now)
    : config_(std::move(config)),
      now_(now),
      early_deaths_(static_cast<size_t>(config_.offer.workers)),
      join_deadline_(now + config_.join_timeout) {}

Effects AgentCore::Step(const Event& event, TimePoint now) {
  CheckInvariants();
  MT_CHECK(now >= now_) << Describe();
  if (phase_ == Phase::kEnded) return {};
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  if (phase_ != Phase::kEnded) ShowStandstills();
  CheckInvariants();
  return std::exchange(effects_, {});
}

std::optional<TimePoint> AgentCore::NextDeadline() const {
  if (phase_ == Phase::kStopping) return stop_deadline_;
  if (phase_ == Phase::kJoining) return join_deadline_;
  std::optional<TimePoint> next = start_deadline_;
  const auto consider = [&](const std::optional<TimePoint>& when) {
    if (when && (!next || *when < *next)) next = when;
  };
  if (Draining()) consider(drain_deadline_);
  if (!workers_.empty()) consider(fence_deadline_);
  consider(NextLook());
  return next;
}

void AgentCore::On(const rendezvous::ServiceEvent& event) {
  std::visit([this](const auto& e) { OnService(e); }, event);
}

void AgentCore::On(const SessionConnected&) {
  connected_ = true;
  const bool first = join_deadline_.has_value();
  join_deadline_.reset();
  fence_deadline_.reset();
  if (phase_ == Phase::kJoining) return config_.warm_up ? BeginWarmUp() : MakeOffer(first);
  if (phase_ == Phase::kRegrouping) {
    if (!Draining() || !AnyOut()) MakeOffer(false);
    return;
  }
  if (next_ != Next::kVerdict && phase_ == Phase::kStopping)
    return;  // a new offer or the end comes after the stop
  // The service may be a new one that knows nothing: give back what it had from us.
  MakeOffer(false);
  if (failure_) Emit(SendToService{rendezvous::WorkerFailed{assignment_->generation, *failure_}});
  if (phase_ == Phase::kFinished) Emit(SendToService{Finished()});
}

void AgentCore::On(const SessionDisconnected& event) {
  connected_ = false;
  Log(log::Level::kWarning, event.why);
  if (config_.fence_timeout > Duration::zero() && !fence_deadline_)
    fence_deadline_ = now_ + config_.fence_timeout;
}

void AgentCore::On(const SessionFailed& event) { GiveUp(event.why); }

void AgentCore::On(const WorkerExited& event) {
  Worker* const worker = Find(event.local_rank);
  if (worker == nullptr) return;
  MT_CHECK(worker->life == Worker::Life::kRunning) << "a second exit; " << Describe();
  worker->life = Worker::Life::kExited;
  worker->exited_with_0 = event.signal == 0 && event.exit_code == 0;
  const bool alive = phase_ == Phase::kRunning || phase_ == Phase::kFinished || phase_ == Phase::kRegrouping;
  if (!alive) return;  // told to go: not a failure
  if (!worker->member()) return OnExitAheadOfItsTurn(event);
  if (Draining()) return OnExitWhileDraining(event);
  if (!worker->exited_with_0 && !worker->said_done) return OnFailedWorker(event);
  if (worker->said_leaving && !worker->said_done)
    return ReportBroken(event.local_rank, "its process has left the job");
  worker->exited_well = true;
  FinishIfAllDone();
}

void AgentCore::On(const WorkerGone& event) {
  Worker* const worker = Find(event.local_rank);
  if (worker == nullptr) return;
  MT_CHECK(worker->life == Worker::Life::kExited) << "gone before its exit; " << Describe();
  worker->life = Worker::Life::kGone;
  if (phase_ == Phase::kRegrouping) worker->rank = -1;  // its generation is over: nobody waits for its report
}

void AgentCore::On(const WorkerSaid& event) {
  const Worker* const worker = Find(event.local_rank);
  // What it had said was read before its end; this comes from something that it left.
  if (worker == nullptr || worker->life != Worker::Life::kRunning) return;
  std::visit([&](const auto& message) { OnWorker(event.local_rank, message); }, event.message);
}

void AgentCore::OnWorker(int local_rank, const channel::Hello& hello) {
  Worker& worker = *Find(local_rank);
  worker.said_hello = true;
  worker.cooperative = hello.cooperative;
  Moved(local_rank);
  if (assignment_ && worker.member()) TellAssignment(local_rank);
  if (Draining()) {
    Emit(SendToWorker{local_rank, channel::Drain{ToSeconds(*drain_deadline_ - now_),
                                                 absl::StrCat("received ", SignalName(last_signal_))}});
  }
}

void AgentCore::OnWorker(int local_rank, const channel::Leaving& leaving) {
  Worker& worker = *Find(local_rank);
  worker.said_leaving = worker.cooperative;
  Log(log::Level::kInfo, absl::StrCat("local rank ", local_rank, " is leaving: ", leaving.why));
}

void AgentCore::OnWorker(int local_rank, const channel::Done& done) {
  // Where its generation is over it says so again in the next one.
  if (!assignment_ || (done.generation.number != 0 && done.generation != assignment_->generation)) return;
  Worker& worker = *Find(local_rank);
  // An ordinary program is judged by how it exits.
  worker.said_done = worker.cooperative;
  FinishIfAllDone();
}

void AgentCore::OnWorker(int local_rank, const channel::Broken& broken) {
  const bool current = assignment_ && assignment_->generation == broken.generation;
  if (current && Find(local_rank)->cooperative) ReportBroken(local_rank, broken.why);
}

void AgentCore::OnWorker(int local_rank, const channel::Ready& ready) {
  Worker& worker = *Find(local_rank);
  Moved(local_rank);
  if (ready.generation.number == 0) {
    worker.warm = true;
  } else {
    worker.said_ready = true;
    early_deaths_[static_cast<size_t>(local_rank)] = 0;
  }
}

void AgentCore::OnWorker(int local_rank, const channel::Progress& progress) {
  Worker& worker = *Find(local_rank);
  Moved(local_rank);
  worker.said_ready = true;
  worker.steps = progress.step;
  if (!assignment_ || worker.rank != 0) return;
  if (reported_step_ && progress.step < *reported_step_ + kStepsPerReport && progress.step >= *reported_step_)
    return;
  reported_step_ = progress.step;
  Emit(SendToService{rendezvous::StepsCommitted{assignment_->generation, progress.step}});
}

void AgentCore::On(const SignalReceived& event) {
  if (first_signal_) {
    if (now_ - *first_signal_ < kSignalEcho && event.signal == last_signal_) return;
    return OnSecondSignal(event.signal);
  }
  first_signal_ = now_;
  last_signal_ = event.signal;
  const std::string why = absl::StrCat("received ", SignalName(event.signal));
  if (!exit_ && phase_ != Phase::kStopping && Cooperative()) return BeginDrain(event.signal, why);
  Log(log::Level::kWarning, workers_.empty() ? why
                                             : absl::StrCat(why, ": stopping the workers, SIGKILL after ",
                                                            HumanDuration(config_.shutdown_timeout)));
  SayGoodbye(Leaves());
  if (!exit_) exit_ = Exit{128 + event.signal, std::nullopt};
  TellWorkers(channel::Drain{ToSeconds(config_.shutdown_timeout), why});
  // In a stop that is already going on this adds the new signal; its deadline stays.
  BeginStop(event.signal, Next::kExit);
}

void AgentCore::OnSecondSignal(int signal) {
  Log(log::Level::kWarning, absl::StrCat("received ", SignalName(signal), " again: killing the workers"));
  if (Draining()) LeaveAfterDrain(0);
  Kill();
}

void AgentCore::On(const Tick&) {
  if (phase_ == Phase::kJoining && join_deadline_ && now_ >= *join_deadline_) {
    return GiveUp(absl::StrCat("no rendezvous service answered at ", config_.endpoint, " within ",
                               HumanDuration(config_.join_timeout),
                               " (--rdzv_conf join_timeout); is mtrun running on the endpoint's host?"));
  }
  if (start_deadline_ && now_ >= *start_deadline_) GiveUpOnLeftovers();
  LookForHangs();
  if (fence_deadline_ && now_ >= *fence_deadline_) return Fence();
  if (Draining() && now_ >= *drain_deadline_) {
    Log(log::Level::kWarning, absl::StrCat("some workers have not left within ",
                                           HumanDuration(config_.shutdown_timeout), ": killing them"));
    LeaveAfterDrain(0);
    return Kill();
  }
  if (phase_ != Phase::kStopping || !stop_deadline_ || now_ < *stop_deadline_) return;
  if (!killed_) {
    Log(log::Level::kWarning, absl::StrCat("some workers are still there after ",
                                           HumanDuration(config_.shutdown_timeout), ": killing them"));
    return Kill();
  }
  Log(log::Level::kError, "some workers do not even end on SIGKILL; going on without waiting for them");
  for (Worker& worker : workers_) worker.life = Worker::Life::kGone;
}

void AgentCore::Fence() {
  fence_deadline_.reset();
  const bool alive = phase_ == Phase::kRunning || phase_ == Phase::kFinished || phase_ == Phase::kRegrouping;
  if (!alive || Draining()) return;
  Log(log::Level::kWarning,
      absl::StrCat("no rendezvous service for ", HumanDuration(config_.fence_timeout),
                   " (fence_timeout): stopping the workers, the others may go on without this node"));
  BeginStop(SIGTERM, Next::kRejoin);
}

void AgentCore::OnService(const rendezvous::Assigned& event) {
  const rendezvous::Assignment& assignment = event.assignment();
  if (assignment_ && assignment_->generation == assignment.generation) return;  // confirms what we hold
  if (exit_) return;
  const auto self = std::find_if(assignment.members.begin(), assignment.members.end(),
                                 [&](const auto& member) { return member.node_id == config_.offer.node_id; });
  if (self == assignment.members.end()) return;
  const auto member = static_cast<size_t>(self - assignment.members.begin());
  if (phase_ == Phase::kJoining) return Enter(assignment, member);
  if (phase_ == Phase::kRegrouping) {
    // Workers that are on their way out cannot fill their ranks.
    if (Draining() && AnyOut()) return LeaveAfterDrain(last_signal_);
    const auto lives_on = [](const Worker& w) { return w.life != Worker::Life::kRunning || w.regroups(); };
    if (std::all_of(workers_.begin(), workers_.end(), lives_on)) return Enter(assignment, member);
    return BeginStop(SIGTERM, Next::kRejoin);  // one of them turned out to be an ordinary program
  }
  const std::string why =
      absl::StrCat("the service has moved on to generation ", assignment.generation.number);
  Log(log::Level::kWarning, why);
  if (phase_ == Phase::kStopping) {
    next_ = Next::kRejoin;
  } else if (assignment_ && Cooperative()) {
    TellWorkers(channel::Dissolved{assignment_->generation, why});
    Regroup();
    Enter(assignment, member);
  } else {
    BeginStop(SIGTERM, Next::kRejoin);
  }
}

void AgentCore::OnService(const rendezvous::GenerationDissolved& event) {
  if (!assignment_ || assignment_->generation != event.generation || exit_) return;
  Log(log::Level::kInfo,
      absl::StrCat("generation ", event.generation.number, " is dissolved: ", event.reason));
  restart_count_ = event.restart_count;
  TellWorkers(channel::Dissolved{event.generation, event.reason, event.gentle});
  if (phase_ == Phase::kStopping) {
    next_ = Next::kRejoin;
  } else if (Cooperative()) {
    Regroup();
    if (!Draining() || !AnyOut()) MakeOffer(true);
  } else {
    BeginStop(SIGTERM, Next::kRejoin);
  }
}

void AgentCore::OnService(const rendezvous::JobEnded& event) {
  if (exit_) return;
  const rendezvous::JobOutcome& outcome = event.outcome;
  exit_ = Exit{outcome.exit_code, std::nullopt};
  if (outcome.success) {
    Log(log::Level::kInfo, absl::StrCat("the job has ended: ", WhyEnded(outcome)));
    for (size_t i = 0; i < workers_.size(); ++i) {
      const bool idle = !workers_[i].member() && workers_[i].life == Worker::Life::kRunning;
      if (idle) Emit(SignalWorker{static_cast<int>(i), SIGKILL});  // it carries nothing yet
    }
    TellWorkers(channel::Stop{"the job has ended"});
    // Workers that are done but still closing down get the usual grace.
    return BeginStop(phase_ == Phase::kFinished ? 0 : SIGTERM, Next::kExit);
  }
  exit_->outcome = outcome;
  // What failed is said once, in the box at the very end.
  if (!workers_.empty()) Log(log::Level::kError, "the job has failed: stopping this node's workers");
  TellWorkers(channel::Stop{WhyEnded(outcome)});
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

void AgentCore::CheckInvariants() const {
  const bool has_workers = phase_ == Phase::kRunning || phase_ == Phase::kFinished;
  MT_CHECK(!has_workers || (assignment_ && !workers_.empty())) << Describe();
  MT_CHECK(phase_ != Phase::kJoining || (workers_.empty() && !assignment_)) << Describe();
  MT_CHECK(phase_ != Phase::kRegrouping || (!workers_.empty() && !assignment_ && (last_ || config_.warm_up)))
      << Describe();
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
    if (workers_[i].said_leaving) absl::StrAppend(&text, " leaving");
    if (workers_[i].due) absl::StrAppend(&text, " due");
    if (workers_[i].given_up) absl::StrAppend(&text, " given up");
    if (config_.warm_up && !workers_[i].member())
      absl::StrAppend(&text, workers_[i].warm ? " warm" : " fresh");
  }
  if (Draining()) absl::StrAppend(&text, "; drains");
  if (exit_) absl::StrAppend(&text, "; exits with ", exit_->code);
  return text;
}

}  // namespace mtrun::launcher
