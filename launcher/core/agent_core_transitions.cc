// Phase transitions of the agent's core. agent_core.cc has the events that cause them.
#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"
#include "base/status_macros.h"
#include "launcher/core/agent_core.h"
#include "launcher/core/agent_messages.h"
#include "launcher/core/worker_environment.h"

namespace mtrun::launcher {

using log::Level;

// ---- generations ----

/// Announces this node, which has no workers (any more), and starts them. They are offered when ready.
void AgentCore::BeginWarmUp() {
  phase_ = Phase::kRegrouping;
  slots_.Reset(config_.offer.workers);
  MakeOffer(true);
  StartMissingWorkers();
}

void AgentCore::Enter(const rendezvous::Assignment& assignment, size_t member) {
  const rendezvous::Member& self = assignment.members[member];
  MT_CHECK(slots_.empty() || slots_.size() == self.workers ||
           (config_.warm_up && self.workers <= slots_.size()))
      << Describe();
  assignment_ = assignment;
  restart_count_ = assignment.restart_count;
  entered_ = assignment.generation;
  last_number_ = std::max(last_number_, assignment.generation.number);
  member_ = member;
  last_.reset();
  report_ = GenerationReport(assignment.generation);
  wait_.Clear();
  pool_.offered = self.workers;  // workers that became ready since then are offered again
  phase_ = Phase::kRunning;
  const bool again = config_.brief && assignment.generation.number > 1;
  out_.Log(again ? Level::kDebug : Level::kInfo, FormationMessage(assignment, self, config_.max_restarts));
  regroup_.Entered(assignment.world_size);
  if (slots_.empty()) slots_.Reset(self.workers);
  slots_.AssignRanks(self.workers, self.first_rank);
  for (const int local_rank : slots_.Members()) {
    WorkerSlot& slot = slots_[local_rank];
    if (slot.running()) {
      OnProgress(local_rank);
      if (slot.said_hello) TellAssignment(local_rank);
      continue;
    }
    const bool leftovers = slot.life != WorkerSlot::Life::kGone;
    slot = WorkerSlot{.life = slot.life, .due = true, .rank = slot.rank};
    if (!leftovers) continue;
    out_.Add(SignalWorker{local_rank, SIGKILL});
    slots_.AwaitLeftovers(now_ + StopLadder::kKillPatience);
  }
  StartMissingWorkers();
}

void AgentCore::TellAssignment(int local_rank) {
  out_.Add(SendToWorker{local_rank, MakeChannelAssignment(*assignment_, member_, local_rank,
                                                          slots_[local_rank].rank, config_.zone)});
}

/// Fills vacant slots with fresh processes: trainers at once, without a rank; others as their generation
/// needs.
void AgentCore::StartMissingWorkers() {
  const bool warm_up = config_.warm_up;
  if (warm_up && (draining() || stop_.exit)) return;
  std::vector<int> local_ranks = warm_up ? slots_.Vacant() : slots_.Due();
  if (local_ranks.empty()) return;
  const bool presumed = warm_up || slots_.Cooperative();
  for (const int local_rank : local_ranks) {
    slots_.Start(local_rank, presumed);
    watch_.Restart(local_rank, now_);
  }
  if (!warm_up) return out_.Add(StartWorkers{*assignment_, member_, std::move(local_ranks)});
  const uint64_t number = last_number_ == 0 ? 0 : last_number_ + 1;
  out_.Add(StartWorkers{PlaceholderAssignment(config_.offer, number, restart_count_), 0,
                        std::move(local_ranks), /*warm_up=*/true});
}

void AgentCore::Regroup(bool graceful) {
  ends_step_ = graceful;
  last_ = std::exchange(assignment_, std::nullopt);
  link_.ForgetLease();
  phase_ = Phase::kRegrouping;
  slots_.EndGeneration();
}

void AgentCore::MakeOffer(bool fresh) {
  rendezvous::Offer offer = config_.offer;
  if (assignment_) offer.holds = assignment_->generation;
  offer.workers = pool_.offered = WorkersToOffer();
  offer.leaves = draining();
  offer.ends_step = ends_step_ && phase_ == Phase::kRegrouping;
  out_.Add(SendOffer{offer, fresh, seen_});
}

int AgentCore::WorkersToOffer() const {
  if (!config_.warm_up) return config_.offer.workers;
  if (phase_ == Phase::kRegrouping) return WarmPool::OfferWhileRegrouping(slots_);
  const int now = assignment_ ? assignment_->members[member_].workers : 0;
  return phase_ == Phase::kRunning ? WarmPool::OfferWhileRunning(slots_, now) : now;
}

/// Reports a broken group if all workers wait and none is stalled (this agent kills stalled workers).
void AgentCore::OnWaiting(int local_rank, const channel::Waiting& waiting) {
  OnProgress(local_rank);
  const bool current = assignment_ && assignment_->generation == waiting.generation;
  if (current && waiting.unreached) {
    const rendezvous::Generation& generation = assignment_->generation;
    out_.Send(rendezvous::PeerUnreached{generation, slots_[local_rank].rank, *waiting.unreached});
  }
  if (!current || config_.hang_timeout == Duration::zero()) return;
  const Duration waited = FromSeconds(waiting.seconds);
  if (waited < config_.hang_timeout + kStuckGrace) return;
  const std::string why =
      absl::StrCat("a collective has waited for ", HumanDuration(waited), " although no worker is stalled");
  report_.Break(slots_[local_rank], why, &out_);
}

void AgentCore::FinishIfAllDone() {
  if (phase_ != Phase::kRunning || !slots_.AllMembersDone()) return;
  phase_ = Phase::kFinished;
  report_.Finish(slots_.AllMembersSafe(), &out_);
}

// ---- ends ----

void AgentCore::OnSignal(int signal) {
  const Drain::Heard heard = drain_.Hear(signal, now_);
  if (heard == Drain::Heard::kEcho) return;
  if (heard == Drain::Heard::kKnown) {
    return out_.Log(Level::kInfo, absl::StrCat("received ", SignalName(signal),
                                               ": this node leaves already; once more kills the workers"));
  }
  if (heard == Drain::Heard::kAgain) {
    out_.Log(Level::kWarning, absl::StrCat("received ", SignalName(signal), " again: killing the workers"));
    if (draining()) LeaveAfterDrain(0);
    return stop_.Kill(now_, &out_);
  }
  const std::string grace = HumanDuration(config_.shutdown_timeout);
  const channel::Drain news{ToSeconds(config_.shutdown_timeout), drain_.why()};
  if (!stop_.exit && phase_ != Phase::kStopping && slots_.Cooperative()) {
    out_.Log(Level::kWarning,
             absl::StrCat(drain_.why(), ": the workers finish their step and leave, SIGKILL after ", grace));
    drain_.Begin(now_ + config_.shutdown_timeout);
    out_.Tell(slots_.Listening(), news);
    out_.Add(SignalWorkers{signal});
    // The service relies on the last offer.
    if (phase_ == Phase::kRegrouping && link_.connected() && !slots_.AnyMemberOut()) MakeOffer(false);
    return;
  }
  out_.Log(Level::kWarning,
           slots_.empty() ? drain_.why()
                          : absl::StrCat(drain_.why(), ": stopping the workers, SIGKILL after ", grace));
  const rendezvous::NodeLeft why = drain_.cause(config_.offer.host);
  if (slots_.empty()) Leave(why);
  if (!slots_.empty() && !left_) out_.Send(rendezvous::Leaving{why, /*stopping=*/true});
  if (!stop_.exit) stop_.exit = Exit{drain_.exit_code(), std::nullopt};
  out_.Tell(slots_.Listening(), news);
  // If a stop is under way this adds the new signal; the deadline stays.
  BeginStop(signal, Next::kExit);
}

void AgentCore::LeaveAfterDrain(int signal) {
  Leave(drain_.cause(config_.offer.host));
  stop_.exit = Exit{drain_.exit_code(), std::nullopt};
  BeginStop(signal, Next::kExit);
  stop_.SetDeadline(drain_.deadline());
}

void AgentCore::BeginStop(int signal, Next next) {
  stop_.next = next;
  if (!slots_.AllAtLeast(WorkerSlot::Life::kGone) && signal != 0) out_.Add(SignalWorkers{signal});
  if (phase_ == Phase::kStopping) return;
  phase_ = Phase::kStopping;
  slots_.ForgetLeftovers();
  stop_.Begin(now_ + config_.shutdown_timeout);
}

/// A node whose workers are done has nothing to lose: it exits with 0 although the job's outcome is unknown.
void AgentCore::GiveUp(const std::string& why) {
  const bool done = phase_ == Phase::kFinished;
  out_.Log(done ? Level::kWarning : Level::kError, why);
  if (!stop_.exit) stop_.exit = Exit{done ? 0 : 1, std::nullopt};
  if (done) out_.Tell(slots_.Listening(), channel::Stop{why});
  BeginStop(done ? 0 : SIGTERM, Next::kExit);
}

void AgentCore::Leave(const rendezvous::NodeLeft& why) {
  if (!std::exchange(left_, true)) out_.Send(rendezvous::Leaving{why});
}

void AgentCore::OnProgress(int local_rank) {
  if (const std::optional<Duration> stalled = watch_.OnProgress(local_rank, now_)) {
    out_.Log(Level::kInfo,
             absl::StrCat(slots_.NameOf(local_rank), ": progress again after ", HumanDuration(*stalled)));
  }
}

void AgentCore::Settle() {
  if (phase_ == Phase::kRunning || (phase_ == Phase::kRegrouping && config_.warm_up)) StartMissingWorkers();
  const bool may_grow = phase_ == Phase::kRunning && !report_.failure() && !report_.broken();
  const bool may_offer = config_.warm_up && !draining() && !stop_.exit;
  if (may_offer && (may_grow || phase_ == Phase::kRegrouping) && WorkersToOffer() != pool_.offered)
    MakeOffer(false);
  const bool waits = phase_ == Phase::kRunning || phase_ == Phase::kRegrouping;
  if (const auto news = draining() && waits ? others_.TakeNews(entered_, drain_.why()) : std::nullopt) {
    out_.Log(Level::kInfo, absl::StrCat(*news, ": the workers here leave at once"));
    out_.Tell(slots_.Listening(), channel::Stop{*news, /*complete=*/false, /*others_continue=*/true});
  }
  if (draining() && slots_.AllOut()) {
    drain_.Complete();
    LeaveAfterDrain(0);
  }
  if (phase_ != Phase::kStopping) return;
  // After a success the background work of a program is not waited for.
  const bool success = stop_.exit && stop_.exit->code == 0;
  if (slots_.AllAtLeast(success ? WorkerSlot::Life::kExited : WorkerSlot::Life::kGone)) FinishStop();
}

void AgentCore::FinishStop() {
  stop_.Finish();
  if (drain_.complete()) {
    const std::optional<rendezvous::Assignment>& generation = assignment_ ? assignment_ : last_;
    const bool has_others = generation && generation->members.size() > 1;
    stop_.exit->code = drain_.ExitCode(slots_, others_.Continue(entered_) || has_others);
  }
  const bool exits = stop_.next == Next::kExit && drain_.signal() == 0;
  const bool success = exits && stop_.exit->code == 0 && !stop_.exit->outcome;
  if (!slots_.empty()) out_.Add(CleanUp{.leave = success});
  slots_.Clear();
  switch (stop_.next) {
    case Next::kAwaitService:
      phase_ = Phase::kStopped;
      break;
    case Next::kRejoin:
      phase_ = Phase::kJoining;
      assignment_.reset();
      link_.ForgetLease();
      last_.reset();
      ends_step_ = false;
      report_ = GenerationReport();
      config_.warm_up ? BeginWarmUp() : MakeOffer(true);
      break;
    case Next::kExit:
      if (drain_.signal() != 0) Leave(drain_.cause(config_.offer.host));
      phase_ = Phase::kEnded;
      out_.Add(*stop_.exit);
      break;
  }
}

// ---- invariants ----

void AgentCore::CheckInvariants() const {
  const bool has_workers = phase_ == Phase::kRunning || phase_ == Phase::kFinished;
  MT_CHECK(!has_workers || (assignment_ && !slots_.empty())) << Describe();
  MT_CHECK(phase_ != Phase::kJoining || (slots_.empty() && !assignment_)) << Describe();
  MT_CHECK(phase_ != Phase::kRegrouping || (!slots_.empty() && !assignment_ && (last_ || config_.warm_up)))
      << Describe();
  MT_CHECK(phase_ != Phase::kStopped || (slots_.empty() && assignment_ && report_.failure())) << Describe();
  MT_CHECK(phase_ != Phase::kEnded || (slots_.empty() && stop_.exit)) << Describe();
  MT_CHECK(phase_ != Phase::kStopping || stop_.deadline()) << Describe();
  MT_CHECK(phase_ != Phase::kStopping || (stop_.next == Next::kExit) == stop_.exit.has_value()) << Describe();
  if (assignment_) {
    MT_CHECK(member_ < assignment_->members.size()) << Describe();
    MT_CHECK(assignment_->members[member_].node_id == config_.offer.node_id) << Describe();
  }
}

bool AgentCore::workers_die_with_lease() const { return phase_ == Phase::kRunning && !slots_.Cooperative(); }

std::string AgentCore::Describe() const {
  static constexpr const char* kPhases[] = {"joining",  "running", "finished", "regrouping",
                                            "stopping", "stopped", "ended"};
  std::string text = kPhases[static_cast<int>(phase_)];
  if (assignment_) absl::StrAppend(&text, " generation ", assignment_->generation.number);
  if (!slots_.empty()) absl::StrAppend(&text, "; ", slots_.Describe());
  if (draining()) absl::StrAppend(&text, "; drains");
  if (stop_.exit) absl::StrAppend(&text, "; exits with ", stop_.exit->code);
  return text;
}

}  // namespace mtrun::launcher
