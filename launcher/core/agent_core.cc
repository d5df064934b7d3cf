#include "launcher/core/agent_core.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/core/agent_messages.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::launcher {
namespace {

constexpr char kAloneInSlurm[] = " (the number of nodes is from Slurm; --nnodes 1 starts this node alone)";

using log::Level;
using rendezvous::Overloaded;
using Phase = AgentCore::Phase;
using Why = rendezvous::NodeLeft::Why;

HangWatch::Scope ScopeOf(Phase phase, bool draining) {
  if (!draining && phase == Phase::kRunning) return HangWatch::Scope::kAll;
  return !draining && phase == Phase::kRegrouping ? HangWatch::Scope::kFresh : HangWatch::Scope::kNobody;
}

bool WorkersLive(Phase phase) {
  return phase == Phase::kRunning || phase == Phase::kFinished || phase == Phase::kRegrouping;
}

}  // namespace

AgentCore::AgentCore(AgentConfig config, TimePoint now)
    : config_(std::move(config)),
      now_(now),
      slots_(config_.offer.host, config_.warm_up),
      pool_(config_.offer.workers),
      watch_(config_.hang_notice, config_.hang_timeout, config_.offer.workers),
      link_(now + config_.join_timeout, config_.fence_timeout) {}

Effects AgentCore::Step(const Event& event, TimePoint now) {
  CheckInvariants();
  MT_CHECK(now >= now_) << Describe();
  if (phase_ == Phase::kEnded) return {};
  now_ = now;
  OnEvent(event);
  Settle();
  if (phase_ == Phase::kRunning && slots_.AnyMemberRunning()) cooperative_ = slots_.Cooperative();
  if (phase_ != Phase::kEnded) {
    std::string note;
    for (const HangWatch::Hang& hang : watch_.Reported(slots_, ScopeOf(phase_, draining())))
      absl::StrAppend(&note, note.empty() ? "" : "; ",
                      launcher::Describe(hang, slots_.NameOf(hang.local_rank)));
    if (note != note_) out_.Add(ShowNote{note_ = std::move(note)});
  }
  CheckInvariants();
  return out_.Take();
}

std::optional<TimePoint> AgentCore::NextDeadline() const {
  if (phase_ == Phase::kStopping) return stop_.deadline();
  if (phase_ == Phase::kJoining) return link_.join_deadline();
  std::optional<TimePoint> next = slots_.leftovers_deadline();
  if (draining()) next = Earlier(next, drain_.deadline());
  next = Earlier(next, wait_.deadline());
  next = Earlier(next, link_.join_deadline());
  if (!slots_.empty()) next = Earlier(next, link_.lease_ends());
  if (phase_ == Phase::kFinished) next = Earlier(next, link_.gives_up());
  return Earlier(next, watch_.NextLook(slots_, ScopeOf(phase_, draining())));
}

// ---- events ----

void AgentCore::OnEvent(const Event& event) {
  std::visit(Overloaded{[this](const rendezvous::ServiceEvent& e) { OnService(e); },
                        [this](const SessionConnected&) { OnConnected(); },
                        [this](const SessionDisconnected& e) {
                          out_.Log(Level::kWarning, e.why);
                          const bool joins = entered_.number == 0 && !others_.known();
                          link_.Disconnected(now_, joins ? config_.join_timeout : Duration::zero());
                        },
                        [this](const LeaseRenewed& e) {
                          if (link_.Leased(e.ends) && slots_.Cooperative())
                            out_.Log(Level::kInfo, "the rendezvous service answers again: the workers go on");
                        },
                        [this](const SessionFailed& e) { GiveUp(e.why); },
                        [this](const WorkerExited& e) {
                          if (slots_.Find(e.local_rank) != nullptr) OnExited(e);
                        },
                        [this](const WorkerGone& e) {
                          WorkerSlot* const slot = slots_.Find(e.local_rank);
                          if (slot == nullptr) return;
                          MT_CHECK(slot->life == WorkerSlot::Life::kExited)
                              << "gone before its exit; " << Describe();
                          slot->life = WorkerSlot::Life::kGone;
                          // The worker's generation is over, so its report is not needed.
                          if (phase_ == Phase::kRegrouping) slot->rank = -1;
                        },
                        [this](const WorkerSaid& e) {
                          const WorkerSlot* const slot = slots_.Find(e.local_rank);
                          // Received after the exit: from a process that the worker left behind.
                          if (slot != nullptr && slot->running()) OnSaid(e.local_rank, e.message);
                        },
                        [this](const SignalReceived& e) { OnSignal(e.signal); },
                        [this](const PreemptFileAppeared&) {
                          const rendezvous::NodeLeft why{.why = Why::kPreemptFile};
                          if (!stop_.exit && drain_.Ask(why, /*all_nodes=*/false)) OnSignal(SIGTERM);
                        },
                        [this](const Tick&) { OnTick(); }},
             event);
}

void AgentCore::OnConnected() {
  const bool first = link_.Connected();
  if (phase_ == Phase::kJoining) return config_.warm_up ? BeginWarmUp() : MakeOffer(first);
  if (phase_ == Phase::kRegrouping) {
    if (!draining() || !slots_.AnyMemberOut()) MakeOffer(false);
    return;
  }
  // If the workers are being stopped, the new offer or the exit follows the stop.
  if (phase_ == Phase::kStopping && stop_.next != Next::kAwaitService) return;
  // The service may be a new one without our state: report it again.
  MakeOffer(false);
  report_.Repeat(slots_.AllMembersSafe(), &out_);
}

void AgentCore::OnService(const rendezvous::ServiceEvent& event) {
  // The shell forwards store replies to the workers; the session handles the retry budget and redirects.
  std::visit(Overloaded{[this](const rendezvous::Assigned& e) { OnAssigned(e.assignment()); },
                        [this](const rendezvous::GenerationDissolved& e) { OnDissolved(e); },
                        [this](const rendezvous::Membership& e) {
                          others_.OnMembership(e.generation.assignment(), config_.offer.node_id);
                        },
                        [this](const rendezvous::JobEnded& e) {
                          if (!stop_.exit) OnJobEnded(e.outcome);
                        },
                        [this](const rendezvous::Refused& e) {
                          GiveUp(absl::StrCat("refused by the job: ", WhyRefused(e)));
                        },
                        [this](const rendezvous::Waiting& e) {
                          const bool hint = config_.nodes_from_slurm && !assignment_;
                          out_.Log(wait_.OnReason(e.text, entered_.number == 0, now_),
                                   absl::StrCat(e.text, hint ? kAloneInSlurm : ""));
                        },
                        [this](const rendezvous::LogRequest& e) {
                          out_.Add(ReadLog{e, slots_.LocalRankOf(e.rank)});
                        },
                        [this](const rendezvous::ControlCall& e) {
                          const rendezvous::NodeLeft why{.why = Why::kOperator, .by = e.by};
                          const bool asked = e.leaves() && drain_.Ask(why, e.saves());
                          // A node logs its own drain itself.
                          if (!asked || e.saves()) out_.Log(Level::kWarning, rendezvous::Describe(e));
                          if (asked) OnSignal(SIGTERM);
                        },
                        [](const auto&) {}},
             event);
}

void AgentCore::OnAssigned(const rendezvous::Assignment& assignment) {
  seen_ = assignment.generation;
  if (assignment_ && assignment_->generation == assignment.generation) return;  // already entered
  // Stale: resent after a newer one, because the acknowledgment was lost. This node has left it since.
  if (stop_.exit || assignment.generation == entered_) return;
  const auto self = std::find_if(assignment.members.begin(), assignment.members.end(),
                                 [&](const auto& member) { return member.node_id == config_.offer.node_id; });
  if (self == assignment.members.end()) return;
  const auto member = static_cast<size_t>(self - assignment.members.begin());
  if (phase_ == Phase::kJoining) return Enter(assignment, member);
  if (phase_ == Phase::kRegrouping) {
    // Workers that are leaving cannot fill their ranks.
    if (draining() && slots_.AnyMemberOut()) return LeaveAfterDrain(drain_.signal());
    if (slots_.AllRegroup()) return Enter(assignment, member);
    return BeginStop(SIGTERM, Next::kRejoin);  // one of them is an ordinary program
  }
  using Source = rendezvous::NewerGeneration::Source;
  const rendezvous::Cause cause{"", "",
                                rendezvous::NewerGeneration{assignment.generation, Source::kAssigned}};
  const std::string why = rendezvous::Describe(cause);
  out_.Log(Level::kWarning, why);
  if (phase_ == Phase::kStopping || !assignment_ || !slots_.Cooperative())
    return BeginStop(phase_ == Phase::kStopping ? 0 : SIGTERM, Next::kRejoin);
  out_.Tell(slots_.Listening(), channel::Dissolved{assignment_->generation, why});
  if (config_.warm_up) regroup_.Ended(cause, assignment_->world_size, now_);
  Regroup(/*graceful=*/false);
  Enter(assignment, member);
}

void AgentCore::OnDissolved(const rendezvous::GenerationDissolved& event) {
  if (!assignment_ || assignment_->generation != event.generation || stop_.exit) return;
  out_.Log(config_.brief ? Level::kDebug : Level::kInfo, rendezvous::Describe(event));
  if (config_.warm_up) regroup_.Ended(event.cause, assignment_->world_size, now_);
  restart_count_ = event.restart_count;
  out_.Tell(slots_.Listening(),
            channel::Dissolved{event.generation, rendezvous::Describe(event.cause), event.graceful});
  if (phase_ == Phase::kStopping || !slots_.Cooperative())
    return BeginStop(phase_ == Phase::kStopping ? 0 : SIGTERM, Next::kRejoin);
  Regroup(event.graceful);
  if (!draining() || !slots_.AnyMemberOut()) MakeOffer(true);
}

void AgentCore::OnJobEnded(const rendezvous::JobOutcome& outcome) {
  Leave({.why = Why::kJobEnded});  // the service need not wait for this node
  stop_.exit = Exit{outcome.exit_code, std::nullopt, true};
  if (outcome.success) {
    out_.Log(Level::kInfo, absl::StrCat("the job has ended: ", WhyEnded(outcome)));
    for (const int local_rank : slots_.Idle()) out_.Add(SignalWorker{local_rank, SIGKILL});
    out_.Tell(slots_.Listening(), channel::Stop{"the job has ended", /*complete=*/true});
    // Workers that are done but still shutting down get the usual grace period.
    return BeginStop(phase_ == Phase::kFinished ? 0 : SIGTERM, Next::kExit);
  }
  stop_.exit->outcome = outcome;
  // The failure itself is reported once, in the box at the very end.
  if (!slots_.empty())
    out_.Log(Level::kError, absl::StrCat("the job ", outcome.stopped ? "is stopped" : "has failed",
                                         ": stopping this node's workers"));
  out_.Tell(slots_.Listening(), channel::Stop{WhyEnded(outcome)});
  BeginStop(phase_ == Phase::kStopping ? 0 : SIGTERM, Next::kExit);
}

void AgentCore::OnExited(const WorkerExited& event) {
  WorkerSlot& slot = slots_[event.local_rank];
  MT_CHECK(slot.running()) << "a second exit; " << Describe();
  slot.life = WorkerSlot::Life::kExited;
  slot.exit_code = event.signal == 0 ? event.exit_code : -1;
  if (!WorkersLive(phase_)) return;  // stopped on request: not a failure
  // Not a worker's failure, even if this agent knows of a valid lease: the guardian may have been quicker, or
  // this agent was suspended.
  if (event.by_lease && phase_ != Phase::kFinished && !slot.said_done && !draining()) {
    link_.TakeLeaseEnd(now_);
    out_.Log(Level::kWarning, LeaseEnded(config_.fence_timeout, /*hold=*/false));
    return BeginStop(SIGKILL, Next::kRejoin);
  }
  if (!slot.member()) return OnStartupExit(event);
  if (draining()) {
    if (!drain_.AbortsStep(event, slot)) return;
    out_.Log(Level::kError,
             rendezvous::Describe(MakeFailure(event, slots_, watch_.KilledAfter(event.local_rank))));
    return LeaveAfterDrain(drain_.signal());
  }
  if (slot.exit_code != 0 && !slot.said_done) return OnFailedWorker(event);
  if (slot.said_leaving && !slot.said_done)
    return assignment_ ? report_.Break(slot, "its process has left the job", &out_) : void();
  slot.exited_well = true;
  FinishIfAllDone();
}

void AgentCore::OnStartupExit(const WorkerExited& event) {
  out_.Add(SignalWorker{event.local_rank, SIGKILL});  // its child processes
  if (draining()) return;
  const bool wrong = event.signal == 0 && event.exit_code == rendezvous::kWrongSettingsStatus;
  const WarmPool::AfterExit next = pool_.OnExit(event.local_rank, wrong, &slots_);
  if (next == WarmPool::AfterExit::kNothingToTrain) {
    stop_.exit = Exit{0, std::nullopt};
    Leave({.why = Why::kNothingToTrain, .host = config_.offer.host});
    return BeginStop(0, Next::kExit);
  }
  const rendezvous::WorkerFailure failure = MakeFailure(event, slots_, watch_.KilledAfter(event.local_rank));
  rendezvous::NodeLeft left{.why = Why::kFailedAtStart, .failure = failure};
  left.failure->message.clear();
  const std::string why = rendezvous::Describe(left);
  if (next != WarmPool::AfterExit::kGiveUpNode) {
    return out_.Log(Level::kError, absl::StrCat(why, next == WarmPool::AfterExit::kRetry
                                                         ? "; starting another"
                                                         : "; not retried, this node continues without it"));
  }
  // If no generation has run yet this ends the job, with the same root cause on all nodes; otherwise the
  // others continue.
  out_.Log(Level::kError, why);
  out_.Send(rendezvous::WorkerFailed{{}, failure});
  Leave(left);
  const int code = failure.signal != 0 ? 128 + failure.signal : failure.exit_code;
  stop_.exit = Exit{code, rendezvous::JobOutcome{false, code, "exited during start-up", failure}};
  BeginStop(SIGKILL, Next::kExit);  // no worker here has state to lose
}

void AgentCore::OnFailedWorker(const WorkerExited& event) {
  const rendezvous::WorkerFailure failure = MakeFailure(event, slots_, watch_.KilledAfter(event.local_rank));
  // The service announces the first failure of a generation to all nodes.
  const bool will_be_said = assignment_ && !report_.failure() && link_.connected();
  out_.Log(
      will_be_said ? Level::kDebug : Level::kError,
      absl::StrCat(rendezvous::Describe(failure),
                   event.log_file.empty() ? "" : absl::StrCat("; its standard error: ", event.log_file)));
  report_.Fail(failure, &out_);
  // While regrouping, a node without survivors simply starts all workers in the next generation.
  if (phase_ != Phase::kRegrouping && !slots_.Cooperative()) return BeginStop(SIGTERM, Next::kAwaitService);
  out_.Add(SignalWorker{event.local_rank, SIGKILL});
}

void AgentCore::OnSaid(int local_rank, const channel::WorkerMessage& message) {
  WorkerSlot& slot = slots_[local_rank];
  const auto current = [this](const rendezvous::Generation& generation) {
    return assignment_ && assignment_->generation == generation;
  };
  std::visit(
      Overloaded{[&](const channel::Hello& hello) {
                   slot.said_hello = true;
                   slot.cooperative = hello.cooperative;
                   OnProgress(local_rank);
                   if (assignment_ && slot.member()) TellAssignment(local_rank);
                   if (draining())
                     out_.Add(SendToWorker{
                         local_rank, channel::Drain{ToSeconds(drain_.deadline() - now_), drain_.why()}});
                 },
                 [&](const channel::Leaving& leaving) {
                   slot.said_leaving = slot.cooperative;
                   out_.Log(Level::kDebug,
                            absl::StrCat("local rank ", local_rank, " is leaving: ", leaving.why));
                 },
                 [&](const channel::Done& done) {
                   // If its generation is over the worker repeats this in the next one.
                   if (!assignment_ || (done.generation.number != 0 && !current(done.generation))) return;
                   // An ordinary program is judged by its exit status.
                   slot.said_done = slot.cooperative;
                   FinishIfAllDone();
                 },
                 [&](const channel::Waiting& waiting) { OnWaiting(local_rank, waiting); },
                 [&](const channel::Broken& broken) {
                   if (current(broken.generation) && slot.cooperative) report_.Break(slot, broken.why, &out_);
                 },
                 [&](const channel::Ready& ready) {
                   OnProgress(local_rank);
                   if (ready.generation.number == 0) {
                     slot.warm = true;
                   } else {
                     slot.said_ready = true;
                     slot.connected |= current(ready.generation);
                     pool_.OnReady(local_rank);
                   }
                 },
                 [&](const channel::Progress& progress) { OnProgress(local_rank, progress.step); },
                 [](const auto&) {}},
      message);
}

void AgentCore::OnProgress(int local_rank, int64_t step) {
  WorkerSlot& slot = slots_[local_rank];
  OnProgress(local_rank);
  slot.said_ready = true;
  slot.connected |= assignment_.has_value();
  watch_.SetStep(local_rank, step);
  if (assignment_ && slot.member()) {
    if (const auto line = regroup_.OnSteps(step, now_)) out_.Log(Level::kInfo, *line);
  }
  if (assignment_ && slot.rank == 0) report_.Steps(step, &out_);
}

void AgentCore::OnTick() {
  if (phase_ != Phase::kStopping && link_.JoinTimedOut(now_)) {
    return GiveUp(absl::StrCat("no rendezvous service answered at ", config_.endpoint, " within ",
                               HumanDuration(config_.join_timeout),
                               " (--rdzv_conf join_timeout); is mtrun running on the endpoint's host?"));
  }
  if (const auto why = wait_.Take(now_)) {
    const bool untold = config_.brief && !regroup_.reason().empty();
    out_.Log(Level::kInfo, untold ? absl::StrCat(regroup_.reason(), ": ", *why) : *why);
  }
  if (slots_.leftovers_deadline() && now_ >= *slots_.leftovers_deadline()) {
    out_.Log(Level::kError, "processes of a dead worker survive SIGKILL; starting its replacement");
    slots_.GiveUpOnLeftovers();
  }
  for (const HangWatch::Hang& hang : watch_.Look(slots_, ScopeOf(phase_, draining()), now_)) {
    out_.Add(InspectWorker{hang.local_rank, launcher::Describe(hang, slots_.NameOf(hang.local_rank))});
    if (hang.kill) out_.Add(SignalWorker{hang.local_rank, SIGKILL});
  }
  if (phase_ == Phase::kFinished && link_.gives_up() && now_ >= *link_.gives_up())
    return GiveUp(EndsAlone(link_.timeout()));
  if (link_.TakeLeaseEnd(now_)) {  // others may continue without this node; trainers know
    if (!assignment_ || !WorkersLive(phase_) || phase_ == Phase::kFinished) return;
    const bool hold = slots_.Cooperative();
    out_.Log(Level::kWarning, LeaseEnded(config_.fence_timeout, hold));
    return hold ? void() : BeginStop(SIGKILL, Next::kRejoin);
  }
  const std::string grace = HumanDuration(config_.shutdown_timeout);
  if (draining() && now_ >= drain_.deadline()) {
    out_.Log(Level::kWarning, absl::StrCat("some workers have not left within ", grace, ": killing them"));
    LeaveAfterDrain(0);
    return stop_.Kill(now_, &out_);
  }
  if (phase_ != Phase::kStopping) return;
  if (stop_.At(now_) == StopLadder::Rung::kKill) {
    out_.Log(Level::kWarning, absl::StrCat("some workers still run after ", grace, ": killing them"));
    stop_.Kill(now_, &out_);
  } else if (stop_.At(now_) == StopLadder::Rung::kGiveUp) {
    out_.Log(Level::kError, "some workers survive SIGKILL; continuing without waiting for them");
    slots_.GiveUpOnAll();
  }
}

}  // namespace mtrun::launcher
