#include "launcher/core/agent_core.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/core/agent_messages.h"
#include "rendezvous/overloaded.h"

namespace mtrun::launcher {
namespace {

using log::Level;
using rendezvous::Overloaded;
using Phase = AgentCore::Phase;

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
                          // Its generation is over: nobody waits for its report.
                          if (phase_ == Phase::kRegrouping) slot->rank = -1;
                        },
                        [this](const WorkerSaid& e) {
                          const WorkerSlot* const slot = slots_.Find(e.local_rank);
                          // What it had said was read before its end; this comes from something that it left.
                          if (slot != nullptr && slot->running()) OnSaid(e.local_rank, e.message);
                        },
                        [this](const SignalReceived& e) { OnSignal(e.signal); },
                        [this](const PreemptFileAppeared&) {
                          if (!stop_.exit && drain_.Ask("--preempt_file", /*all_nodes=*/false))
                            OnSignal(SIGTERM);
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
  // A new offer or the end comes after the stop.
  if (phase_ == Phase::kStopping && stop_.next != Next::kAwaitService) return;
  // The service may be a new one that knows nothing: give back what it had from us.
  MakeOffer(false);
  if (report_.failure()) out_.Send(rendezvous::WorkerFailed{assignment_->generation, *report_.failure()});
  if (phase_ == Phase::kFinished)
    out_.Send(rendezvous::WorkersFinished{assignment_->generation, slots_.AllMembersSafe()});
}

void AgentCore::OnService(const rendezvous::ServiceEvent& event) {
  // The shell forwards store replies to the worker that asked; the session remembers the budget and follows
  // a redirect by itself.
  std::visit(Overloaded{[this](const rendezvous::Assigned& e) { OnAssigned(e.assignment()); },
                        [this](const rendezvous::GenerationDissolved& e) { OnDissolved(e); },
                        [this](const rendezvous::Membership& e) {
                          others_.OnMembership(e.generation.assignment(), config_.offer.node_id);
                        },
                        [this](const rendezvous::JobEnded& e) {
                          if (!stop_.exit) OnJobEnded(e.outcome);
                        },
                        [this](const rendezvous::Refused& e) {
                          GiveUp(absl::StrCat("refused by the job: ", e.reason));
                        },
                        [this](const rendezvous::Waiting& e) { out_.Log(Level::kInfo, e.text); },
                        [this](const rendezvous::LogRequest& e) {
                          out_.Add(ReadLog{e, slots_.LocalRankOf(e.rank)});
                        },
                        [this](const rendezvous::ControlCall& e) {
                          const bool asked = e.leave && drain_.Ask(rendezvous::Describe(e.by), e.checkpoint);
                          // Of its own drain a node says so itself.
                          if (!asked || e.checkpoint) out_.Log(Level::kWarning, rendezvous::Describe(e));
                          if (asked) OnSignal(SIGTERM);
                        },
                        [](const auto&) {}},
             event);
}

void AgentCore::OnAssigned(const rendezvous::Assignment& assignment) {
  if (assignment_ && assignment_->generation == assignment.generation) return;  // confirms what we hold
  // Sent again by a service that had not heard that it came, after another one: this node has left it since.
  if (stop_.exit || assignment.generation == entered_) return;
  const auto self = std::find_if(assignment.members.begin(), assignment.members.end(),
                                 [&](const auto& member) { return member.node_id == config_.offer.node_id; });
  if (self == assignment.members.end()) return;
  const auto member = static_cast<size_t>(self - assignment.members.begin());
  if (phase_ == Phase::kJoining) return Enter(assignment, member);
  if (phase_ == Phase::kRegrouping) {
    // Workers that are on their way out cannot fill their ranks.
    if (draining() && slots_.AnyMemberOut()) return LeaveAfterDrain(drain_.signal());
    if (slots_.AllRegroup()) return Enter(assignment, member);
    return BeginStop(SIGTERM, Next::kRejoin);  // one of them turned out to be an ordinary program
  }
  const std::string why =
      absl::StrCat("the service has moved on to generation ", assignment.generation.number);
  out_.Log(Level::kWarning, why);
  if (phase_ == Phase::kStopping) {
    stop_.next = Next::kRejoin;
  } else if (assignment_ && slots_.Cooperative()) {
    out_.Tell(slots_.Listening(), channel::Dissolved{assignment_->generation, why});
    if (config_.warm_up) regroup_.Ended(why, assignment_->world_size, now_);
    Regroup(/*graceful=*/false);
    Enter(assignment, member);
  } else {
    BeginStop(SIGTERM, Next::kRejoin);
  }
}

void AgentCore::OnDissolved(const rendezvous::GenerationDissolved& event) {
  if (!assignment_ || assignment_->generation != event.generation || stop_.exit) return;
  out_.Log(config_.brief ? Level::kDebug : Level::kInfo,
           absl::StrCat("generation ", event.generation.number, " ended: ", event.reason));
  if (config_.warm_up) regroup_.Ended(event.reason, assignment_->world_size, now_);
  restart_count_ = event.restart_count;
  out_.Tell(slots_.Listening(), channel::Dissolved{event.generation, event.reason, event.graceful});
  if (phase_ == Phase::kStopping) {
    stop_.next = Next::kRejoin;
  } else if (slots_.Cooperative()) {
    Regroup(event.graceful);
    if (!draining() || !slots_.AnyMemberOut()) MakeOffer(true);
  } else {
    BeginStop(SIGTERM, Next::kRejoin);
  }
}

void AgentCore::OnJobEnded(const rendezvous::JobOutcome& outcome) {
  Leave("the job has ended");  // the service need not wait for this node any more
  stop_.exit = Exit{outcome.exit_code, std::nullopt, true};
  if (outcome.success) {
    out_.Log(Level::kInfo, absl::StrCat("the job has ended: ", WhyEnded(outcome)));
    for (const int local_rank : slots_.Idle()) out_.Add(SignalWorker{local_rank, SIGKILL});
    out_.Tell(slots_.Listening(), channel::Stop{"the job has ended", /*complete=*/true});
    // Workers that are done but still closing down get the usual grace.
    return BeginStop(phase_ == Phase::kFinished ? 0 : SIGTERM, Next::kExit);
  }
  stop_.exit->outcome = outcome;
  // What failed is reported once, in the box at the very end.
  if (!slots_.empty())
    out_.Log(Level::kError, absl::StrCat("the job ", outcome.stopped ? "is stopped" : "has failed",
                                         ": stopping this node's workers"));
  out_.Tell(slots_.Listening(), channel::Stop{WhyEnded(outcome)});
  if (phase_ == Phase::kStopping) {
    stop_.next = Next::kExit;
  } else {
    BeginStop(SIGTERM, Next::kExit);
  }
}

void AgentCore::OnExited(const WorkerExited& event) {
  WorkerSlot& slot = slots_[event.local_rank];
  MT_CHECK(slot.running()) << "a second exit; " << Describe();
  slot.life = WorkerSlot::Life::kExited;
  slot.exit_code = event.signal == 0 ? event.exit_code : -1;
  if (!WorkersLive(phase_)) return;  // told to go: not a failure
  // Nobody's failure, whatever this agent has heard since: the guardian may have been quicker, or this agent
  // stopped.
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
    return ReportBroken(event.local_rank, "its process has left the job");
  slot.exited_well = true;
  FinishIfAllDone();
}

void AgentCore::OnStartupExit(const WorkerExited& event) {
  out_.Add(SignalWorker{event.local_rank, SIGKILL});  // whatever else it started
  if (draining()) return;
  const bool wrong = event.signal == 0 && event.exit_code == rendezvous::kWrongSettingsStatus;
  const WarmPool::AfterExit next = pool_.OnExit(event.local_rank, wrong, &slots_);
  if (next == WarmPool::AfterExit::kNothingToTrain) {
    stop_.exit = Exit{0, std::nullopt};
    Leave(absl::StrCat(config_.offer.host, " has nothing to train"));
    return BeginStop(0, Next::kExit);
  }
  const rendezvous::WorkerFailure failure = MakeFailure(event, slots_, watch_.KilledAfter(event.local_rank));
  const std::string why = absl::StrCat(rendezvous::Describe(failure), " during start-up");
  if (next != WarmPool::AfterExit::kGiveUpNode) {
    return out_.Log(Level::kError, absl::StrCat(why, next == WarmPool::AfterExit::kRetry
                                                         ? "; starting another"
                                                         : "; not retried, this node continues without it"));
  }
  // Where no generation has run yet this ends the job, for everybody with the same root cause; else the
  // others continue.
  out_.Log(Level::kError, why);
  out_.Send(rendezvous::WorkerFailed{{}, failure});
  Leave(why);
  const int code = failure.signal != 0 ? 128 + failure.signal : failure.exit_code;
  stop_.exit = Exit{code, rendezvous::JobOutcome{false, code, "exited during start-up", failure}};
  BeginStop(SIGKILL, Next::kExit);  // nobody here has anything to lose
}

void AgentCore::OnFailedWorker(const WorkerExited& event) {
  const rendezvous::WorkerFailure failure = MakeFailure(event, slots_, watch_.KilledAfter(event.local_rank));
  // The first one of a generation is what the service answers about, for everybody to read.
  const bool will_be_said = assignment_ && !report_.failure() && link_.connected();
  out_.Log(
      will_be_said ? Level::kDebug : Level::kError,
      absl::StrCat(rendezvous::Describe(failure),
                   event.log_file.empty() ? "" : absl::StrCat("; its standard error: ", event.log_file)));
  if (report_.AddFailure(failure))
    out_.Send(rendezvous::WorkerFailed{(assignment_ ? assignment_ : last_)->generation, failure});
  // While they regroup, a node without a survivor simply starts all of them in the next generation.
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
                   Moved(local_rank);
                   if (assignment_ && slot.member()) TellAssignment(local_rank);
                   if (draining())
                     out_.Add(SendToWorker{
                         local_rank, channel::Drain{ToSeconds(drain_.deadline() - now_), drain_.why()}});
                 },
                 [&](const channel::Leaving& leaving) {
                   slot.said_leaving = slot.cooperative;
                   out_.Log(Level::kInfo,
                            absl::StrCat("local rank ", local_rank, " is leaving: ", leaving.why));
                 },
                 [&](const channel::Done& done) {
                   // Where its generation is over it says so again in the next one.
                   if (!assignment_ || (done.generation.number != 0 && !current(done.generation))) return;
                   // An ordinary program is judged by how it exits.
                   slot.said_done = slot.cooperative;
                   FinishIfAllDone();
                 },
                 [&](const channel::Waiting& waiting) { OnWaiting(local_rank, waiting); },
                 [&](const channel::Broken& broken) {
                   if (current(broken.generation) && slot.cooperative) ReportBroken(local_rank, broken.why);
                 },
                 [&](const channel::Ready& ready) {
                   Moved(local_rank);
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
  Moved(local_rank);
  slot.said_ready = true;
  slot.connected |= assignment_.has_value();
  watch_.SetStep(local_rank, step);
  if (assignment_ && slot.member()) {
    if (const auto line = regroup_.OnSteps(step, now_)) out_.Log(Level::kInfo, *line);
  }
  if (assignment_ && slot.rank == 0 && report_.AddSteps(step))
    out_.Send(rendezvous::StepsCommitted{assignment_->generation, step});
}

void AgentCore::OnTick() {
  if (phase_ != Phase::kStopping && link_.JoinTimedOut(now_)) {
    return GiveUp(absl::StrCat("no rendezvous service answered at ", config_.endpoint, " within ",
                               HumanDuration(config_.join_timeout),
                               " (--rdzv_conf join_timeout); is mtrun running on the endpoint's host?"));
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
    return GiveUp(EndsAlone(link_.patience()));
  if (link_.TakeLeaseEnd(now_)) {  // others may go on without this node; trainers see it themselves
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
