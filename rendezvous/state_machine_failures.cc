// What failures of workers do: the budget and its refunds, whom to blame, generations that break without a
// death.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kFirstBreakPause = std::chrono::milliseconds(200);

int ExitCodeOf(const WorkerFailure& failure) {
  if (failure.signal != 0) return 128 + failure.signal;
  return failure.exit_code != 0 ? failure.exit_code : 1;
}

/// What a program says before it exits for wrong settings stands in its last line.
std::string LastLine(const std::string& text) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  return trimmed.substr(trimmed.rfind('\n') + 1);
}

std::string Restarts(int count) { return absl::StrCat(count, count == 1 ? " restart" : " restarts"); }

/// The first comes without a pause: most breaks are a death that is told a moment later.
Duration BreakPause(int breaks) {
  if (breaks < 2) return Duration::zero();
  return std::min<Duration>(JobMachine::kLongestBreakPause,
                            kFirstBreakPause * (1 << std::min(breaks - 2, 20)));
}

}  // namespace

void JobMachine::OnFailure(const std::string& node_id, const WorkerFailure& failure, TimePoint now) {
  if (result_safe_) {
    Log(absl::StrCat(DescribeWithLog(failure), "; the job's result is safe, so it does not matter"));
    finished_.insert(node_id);
    return;
  }
  breaks_ = 0;
  if (OnlyItsOwn(node_id, failure)) return SendAway(node_id, failure);
  if (std::string why = WhyNoRestart(failure); !why.empty())
    return Condemn(node_id, failure, std::move(why), now);
  ++restart_count_;
  Dissolve(absl::StrCat(DescribeWithLog(failure), "; restart ", used(), " of ", settings_.max_restarts));
}

// A worker's peers may notice its death sooner than its agent. Their word alone costs no budget; it is the
// failure behind it that does.
void JobMachine::OnLateFailure(const std::string& node_id, const WorkerFailure& failure, TimePoint now) {
  broken_.reset();
  breaks_ = 0;
  pause_ends_.reset();
  if (OnlyItsOwn(node_id, failure)) return SendAway(node_id, failure);
  if (std::string why = WhyNoRestart(failure); !why.empty())
    return Condemn(node_id, failure, std::move(why), now);
  ++restart_count_;
  Log(absl::StrCat(DescribeWithLog(failure), ", which broke the collectives of its generation; restart ",
                   used(), " of ", settings_.max_restarts));
}

/// A node whose workers cannot even begin (its agent goes by itself). Before the first generation it is the
/// whole job's failure, later nobody else is concerned.
void JobMachine::OnFailureAtStart(const std::string& node_id, const WorkerFailure& failure, TimePoint now) {
  if (phase_ == Phase::kEnded) return;
  if (formed_) return Log(absl::StrCat(Name(node_id), " cannot take part: ", DescribeWithLog(failure)));
  End(JobOutcome{false, ExitCodeOf(failure), "it died before it could take part", failure}, now);
}

/// What no restart mends: "" for nothing of that kind.
std::string JobMachine::WhyHopeless(const WorkerFailure& failure) const {
  if (failure.pid == 0) return "its program cannot be started, which no restart mends";
  // Only trainers keep to this status.
  const bool trainer = settings_.refund_steps > 0;
  if (!trainer || failure.signal != 0 || failure.exit_code != kWrongSettingsStatus) return "";
  return absl::StrCat("exit status ", kWrongSettingsStatus, " means wrong settings, which no restart mends");
}

/// Takes note of the failure; "" when another try is allowed.
std::string JobMachine::WhyNoRestart(const WorkerFailure& failure) {
  early_failures_ = failure.early ? early_failures_ + 1 : 0;
  const bool trainer = settings_.refund_steps > 0;
  if (std::string why = WhyHopeless(failure); !why.empty()) return why;
  if (trainer && early_failures_ >= kMaxEarlyFailures)
    return absl::StrCat(early_failures_, " workers in a row died before they could take part");
  if (used() < settings_.max_restarts) return "";
  if (settings_.max_restarts == 0) return "no restarts are allowed (max_restarts 0)";
  return absl::StrCat("the budget of ", Restarts(settings_.max_restarts), " is used up");
}

// ---- a node where the program cannot work ----

/// It is this node's fault: the job has run without it, or has made steps.
bool JobMachine::OnlyItsOwn(const std::string& node_id, const WorkerFailure& failure) const {
  if (WhyHopeless(failure).empty()) return false;
  const uint64_t joined = nodes_.at(node_id).joined;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    const bool other = entry.first != node_id && entry.second.greeted;
    const bool older = entry.second.joined > 0 && entry.second.joined < joined;
    return other && (progressed_ || older);
  });
}

void JobMachine::SendAway(const std::string& node_id, const WorkerFailure& failure) {
  const std::string said = LastLine(failure.message), hopeless = WhyHopeless(failure);
  const std::string why =
      absl::StrCat(DescribeWithLog(failure), said.empty() ? "" : ": ", said, hopeless.empty() ? "" : "; ",
                   hopeless, "; the job runs on the others: ", Name(node_id), " is sent away");
  const bool member = IsMember(node_id);
  store_.DropNode(node_id);
  left_.insert(node_id);
  Refuse(node_id, absl::StrCat(why, "; start it as the others are started"));
  nodes_.erase(node_id);
  if (member) Dissolve(why);
}

// ---- the end of a job, and whose fault it is ----

/// The job is over. Whoever else has failed in this generation may have done so earlier and be the cause.
void JobMachine::Condemn(const std::string& node_id, const WorkerFailure& failure, std::string why,
                         TimePoint now) {
  verdict_ = Verdict{failure, failure, std::move(why), now + kVerdictPause, {node_id}};
  form_at_.reset();
  hold_ends_.reset();
}

// Clocks of nodes differ: this decides about nothing but the blame.
void JobMachine::Hear(const std::string& node_id, const WorkerFailure& failure) {
  verdict_->heard.insert(node_id);
  const bool known = failure.failed_at_ns > 0 && verdict_->cause.failed_at_ns > 0;
  if (known && failure.failed_at_ns < verdict_->cause.failed_at_ns) verdict_->cause = failure;
}

bool JobMachine::AllHeard() const {
  if (!current_) return true;
  return std::all_of(current_->members.begin(), current_->members.end(), [&](const Member& member) {
    const auto node = nodes_.find(member.node_id);
    const bool here = node != nodes_.end() && node->second.connected && node->second.confirmed;
    const bool may_speak = here && !node->second.offered && !node->second.starting;
    return !may_speak || verdict_->heard.contains(member.node_id) || finished_.contains(member.node_id);
  });
}

void JobMachine::SettleVerdict(TimePoint now) {
  if (now < verdict_->due && !AllHeard()) return;
  const Verdict verdict = *std::exchange(verdict_, std::nullopt);
  JobOutcome outcome;
  outcome.exit_code = ExitCodeOf(verdict.cause);
  outcome.root_cause = verdict.cause;
  outcome.reason = absl::StrCat(verdict.cause == verdict.trigger
                                    ? ""
                                    : absl::StrCat("after it ", rendezvous::Describe(verdict.trigger), "; "),
                                verdict.why);
  End(std::move(outcome), now);
}

// ---- generations that break without a death ----

void JobMachine::OnBroken(const std::string& node_id, const CollectivesBroken& broken, TimePoint now) {
  const std::string what = absl::StrCat("rank ", broken.rank, " on ", Name(node_id),
                                        " cannot go on with the others: ", broken.why);
  if (result_safe_) {
    Log(absl::StrCat(what, "; the job's result is safe, so it does not matter"));
    finished_.insert(node_id);
    return;
  }
  if (verdict_) return;
  Dissolve(what);
  broken_ = current();
  PaceBreaks(what, now);
}

/// Workers that cannot meet must not make generations spin.
void JobMachine::PaceBreaks(const std::string& what, TimePoint now) {
  if (stepped_ || now - began_ >= kLongRun) breaks_ = 0;
  ++breaks_;
  pause_ends_ = now + BreakPause(breaks_);
  if (breaks_ < kMaxBreaks) return;
  End(JobOutcome{false, 1,
                 absl::StrCat(breaks_,
                              " generations in a row broke without a step and without a failed process: ",
                              what, "; do the nodes reach each other?"),
                 std::nullopt},
      now);
}

// ---- refunds ----

// Bad luck now and then does not end a long job; a crash loop makes no steps and does.
void JobMachine::OnSteps(int64_t step) {
  early_failures_ = breaks_ = 0;
  progressed_ = stepped_ = true;
  if (settings_.refund_steps == 0) return;
  // A run that went back to a checkpoint earns only what it had not reached before.
  if (!refund_mark_ || used() == 0) refund_mark_ = std::max(step, refund_mark_.value_or(0));
  const int before = refunded_;
  while (used() > 0 && step - *refund_mark_ >= settings_.refund_steps) {
    ++refunded_;
    *refund_mark_ += settings_.refund_steps;
    Log(absl::StrCat(settings_.refund_steps, " steps without a failure: ", used(), " of ",
                     settings_.max_restarts, " restarts are used now"));
  }
  if (refunded_ == before) return;
  // They keep it for a service that knows nothing.
  for (const auto& [node_id, node] : nodes_) {
    if (!node.expected) SendTo(node_id, BudgetChanged{restart_count_, refunded_});
  }
}

}  // namespace mtrun::rendezvous
