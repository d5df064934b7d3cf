// The events of a job, one function for each kind.
#include "rendezvous/job/state_machine.h"

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {
namespace {

/// True if the event concerns no node's membership.
bool IsQuiet(const Event& event) {
  if (std::holds_alternative<Heartbeat>(event.what)) return true;
  const auto* said = std::get_if<AgentSaid>(&event.what);
  return said != nullptr &&
         (std::holds_alternative<StoreSet>(said->event) || std::holds_alternative<StoreRead>(said->event) ||
          std::holds_alternative<StepsCommitted>(said->event));
}

/// Returns whether to check all invariants, which visits every node. With thousands of nodes that would
/// dominate the cost of an event, and the end of a job, with one event per node, would take longer than the
/// leases. So large jobs check all only after a change of generation or phase, which every node gets anyway.
/// Tests have fewer nodes, debug builds check everything, others do not check again before an event.
bool ChecksAll([[maybe_unused]] size_t nodes, [[maybe_unused]] bool before_event) {
#ifdef MT_CHECK_ALL
  return true;
#else
  return !before_event && nodes <= JobMachine::kMaxChecked;
#endif
}

}  // namespace

JobMachine::JobMachine(JobSettings settings, Options options)
    : settings_(std::move(settings)),
      options_(std::move(options)),
      run_(options_.run != 0 ? options_.run : NewIncarnation(options_.seed, settings_.job_id),
           options_.service_started + options_.recovery_window),
      roster_(settings_),
      timers_(settings_),
      budget_(settings_.max_restarts, settings_.refund_steps),
      departures_(settings_),
      suspects_(settings_),
      end_check_(settings_),
      quorum_(settings_, options_.role) {
  if (!options_.remembered) generation_.Saw(options_.last_number);
}

std::vector<Effect> JobMachine::Step(const Event& event, TimePoint now) {
  // Irrelevant to Settle and the invariants, and very frequent.
  const bool quiet = IsQuiet(event) && !suspects_.Has(event.node_id);
  if (!quiet) CheckInvariants(ChecksAll(roster_.size(), /*before_event=*/true));
  const auto phase = [this] {
    return std::make_tuple(outcome_.has_value(), generation_.running(), generation_.id());
  };
  const auto before = phase();
  std::visit(Overloaded{[&](const StreamOpened& e) { OnOpened(event.node_id, e, now); },
                        [&](const StreamClosed& e) { roster_.Close(event.node_id, e.why, now); },
                        [&](const Heartbeat& e) { OnHeartbeat(event.node_id, e, now); },
                        [&](const AgentSaid& e) { OnSaid(event.node_id, e, now); },
                        [&](const Tick&) { OnTick(now); }, [&](const ProbeResult& e) { OnProbed(e, now); },
                        [&](const ControlAsked& e) { OnControl(e, now); }},
             event.what);
  if (quiet) return effects_.Take();
  suspects_.OnHeard(event.node_id, membership(), &effects_, now);
  Settle(now);
  const bool turned = !phase_since_ || before != phase();
  if (turned) phase_since_ = now;
  CheckInvariants(ChecksAll(roster_.size(), /*before_event=*/false) || turned);
  return effects_.Take();
}

// ---- sessions and time ----

void JobMachine::OnOpened(const std::string& node_id, const StreamOpened& event, TimePoint now) {
  if (!Has(node_id) && run_.Excludes(event.incarnation, now))
    return effects_.Refuse(node_id, RunReplaced{settings_.job_id});
  if (auto differing = DifferingSettings(settings_, event.settings); !differing.empty())
    return effects_.Refuse(node_id, SettingsDiffer{settings_.job_id, std::move(differing)});
  if (outcome_ && !Has(node_id)) {
    effects_.Send(node_id, JobEnded{*outcome_});
    return effects_.Close(node_id);
  }
  if (const auto remembered = std::exchange(options_.remembered, std::nullopt)) {
    HearOf(remembered->generation, "what was written down here", now);
    spares_.OnRemembered(remembered->spares);
    quorum_.OnRemembered(remembered->spares);
    departures_.OnProbed(remembered->verified);
    from_file_ = true;
    generation_.Saw(options_.last_number);  // a generation may have run elsewhere since
  }
  if (!generation_.known() && event.incarnation != 0) run_.Become(event.incarnation);
  generation_.Saw(event.seen.number);
  budget_.Raise(event.seen_restarts, event.seen_refunds);
  roster_.Open(node_id, now);
  departures_.OnBack(node_id);
  roster_.Change(node_id, [&](RosterNode& node) {
    node.run = event.incarnation;
    node.seen = event.seen.number;
    node.with_host |= event.silence < settings_.LostAfter();
    if (event.last) node.knows = event.last->generation;
  });
  if (event.last) HearOf(*event.last, node_id, now);
  control_.OnOpened(node_id, now, &effects_);
  // Messages to a node that had no session yet were lost.
  if (!roster_.Find(node_id)->expected) return;
  roster_.Change(node_id, [](RosterNode& node) { node.expected = false; });
  if (outcome_) effects_.Send(node_id, JobEnded{*outcome_});
}

void JobMachine::OnHeartbeat(const std::string& node_id, const Heartbeat& event, TimePoint now) {
  quorum_.predecessors().OnKnown(node_id, event.knows, generation_.id());
  if (!roster_.Beat(node_id, event, now)) return;
  effects_.Log(absl::StrCat(roster_.Name(node_id), " is alive, but its main loop has not turned for ",
                            HumanDuration(event.main_loop_age)));
}

void JobMachine::OnSaid(const std::string& node_id, const AgentSaid& said, TimePoint now) {
  const RosterNode* node = roster_.Find(node_id);
  // The node has left, is lost and its stream is being closed, or is known only from others.
  if (node == nullptr || node->expected) return;
  roster_.Touch(node_id, now);
  if (const auto* offer = std::get_if<OfferSent>(&said.event))
    return OnOffer(node_id, *offer, said.held, now);
  if (const auto* leaving = std::get_if<Leaving>(&said.event)) return OnLeaving(node_id, *leaving, now);
  OnReport(node_id, said.event, now);
}

// ---- offers ----

void JobMachine::OnOffer(const std::string& node_id, const OfferSent& sent,
                         const std::optional<Assignment>& held, TimePoint now) {
  const Offer& offer = sent.offer;
  if (outcome_) return;  // the node is notified, or is about to be
  if (offer.node_id != node_id) {
    effects_.Refuse(node_id, NotServed{absl::StrCat("offer names node \"", offer.node_id,
                                                    "\" over the session of \"", node_id, "\"")});
    return Lose(node_id, {"its offer was malformed"});
  }
  if (held && run_.Excludes(held->incarnation, now)) {
    effects_.Refuse(node_id, RunReplaced{settings_.job_id});
    return Lose(node_id, {"it is of another run"});
  }
  timers_.OnOffer(now);
  spares_.OnOffer(offer, generation_);
  quorum_.predecessors().OnKnown(node_id, sent.seen, generation_.id());
  if (offer.holds) {
    OnHeldGeneration(node_id, offer, held, now);
  } else {
    OnFreshOffer(node_id, offer, sent.seen);
  }
  std::vector<AgentEvent> early;
  roster_.Change(node_id, [&](RosterNode& node) {
    node.greeted = true;
    early.swap(node.early);
  });
  for (const AgentEvent& event : early) {
    if (Has(node_id)) OnReport(node_id, event, now);
  }
  // All nodes notice within a heartbeat of each other that a service is gone.
  if (quorum_.Authority(membership()).ground == FormationRight::Ground::kMembers)
    roster_.ExpectUntil(now + 2 * settings_.heartbeat_interval);
}

void JobMachine::OnFreshOffer(const std::string& node_id, const Offer& offer, const Generation& seen) {
  // Sent (or resent after a reconnect) before the last assignment reached the node: the offer that counts is
  // still to come.
  const Member* member = generation_.FindLast(node_id);
  if (member != nullptr && roster_.Find(node_id)->confirmed && seen < generation_.id()) return;
  roster_.TakeOffer(node_id, offer);
  control_.OnReady(node_id);
  roster_.Change(node_id, [&](RosterNode& node) {
    // The node was lost and is back. Its workers may still be in their step, and end it before they enter the
    // next generation. Members come first: the next generation waits for one that would be left out (R9).
    if (member != nullptr) node.place = member->node_rank;
    if (failing_) node.confirmed = false;  // it has stopped already
  });
  if (generation_.FindRunning(node_id) != nullptr) Dissolve(roster_.About(node_id, NodeStopped()));
}

void JobMachine::OnHeldGeneration(const std::string& node_id, const Offer& offer,
                                  const std::optional<Assignment>& held, TimePoint now) {
  roster_.Change(node_id, [&](RosterNode& node) {
    if (!node.offer) node.offer = offer;  // for its name in texts
  });
  if (held && !failing_ && held->generation == *offer.holds &&
      generation_.CanAdopt(*held, node_id, settings_)) {
    Adopt(node_id, *held, now);
  } else if (held) {
    HearOf(*held, node_id, now);  // if a newer one was formed, its members know of it
  }
  generation_.Saw(offer.holds->number);
  const bool is_last = generation_.id() == *offer.holds;
  if (generation_.FindRunning(node_id) != nullptr && is_last) {
    roster_.Change(node_id, [&](RosterNode& node) {
      node.confirmed = true;
      node.offer = offer;  // if it has more workers than ranks: see Settle
    });
    if (roster_.attendance().MostConfirmed()) run_.Prove(RunProof::kMembers);
    return;
  }
  const Member* member = generation_.FindLast(node_id);
  roster_.Change(node_id, [&](RosterNode& node) {
    node.offered = false;
    // A survivor that came late: the next generation waits until it is ready too.
    if (!outcome_ && !generation_.running() && is_last && member != nullptr) node.place = member->node_rank;
  });
  effects_.Send(node_id, GenerationDissolved{*offer.holds, control_.WhyOver(node_id, *offer.holds, now),
                                             budget_.count(), budget_.refunded()});
}

// ---- reports ----

void JobMachine::OnReport(const std::string& node_id, const AgentEvent& event, TimePoint now) {
  const Generation generation = GenerationOf(event);
  const auto* failed = std::get_if<WorkerFailed>(&event);
  if (failed != nullptr && generation.number == 0) return OnFailureAtStart(node_id, failed->failure, now);
  if (failed != nullptr && failing_ && generation == generation_.id())
    return failing_->AddReport(node_id, failed->failure);
  if (generation_.FindRunning(node_id) == nullptr || generation != generation_.id()) {
    if (failed != nullptr && generation_.Broke(generation))
      return OnFailure(node_id, failed->failure, /*late=*/true, now);
    const RosterNode& known = roster_.nodes().at(node_id);
    const bool may_be_adopted = !outcome_ && !known.greeted && generation_.MayRunInstead(generation);
    if (!may_be_adopted || known.early.size() >= kMaxEarlyReports) return effects_.ReplyOver(node_id, event);
    return roster_.Change(node_id, [&](RosterNode& node) { node.early.push_back(event); });
  }
  if (failed != nullptr || std::holds_alternative<CollectivesBroken>(event)) departures_.OnBroken(node_id);
  if (failed != nullptr) return OnFailure(node_id, failed->failure, /*late=*/false, now);
  if (const auto* finished = std::get_if<WorkersFinished>(&event))
    return OnFinished(node_id, finished->final);
  if (const auto* steps = std::get_if<StepsCommitted>(&event)) return OnSteps(steps->step);
  if (const auto* pair = std::get_if<PeerUnreached>(&event))
    return separations_.OnUnreached(node_id, pair->peer, generation_, now);
  if (const auto* broken = std::get_if<CollectivesBroken>(&event)) return OnBroken(node_id, *broken, now);
  if (const auto* set = std::get_if<StoreSet>(&event))
    return effects_.Reply(generation, store_.Set(set->key, set->value));
  const auto& read = std::get<StoreRead>(event);
  effects_.Reply(generation, store_.Read(node_id, read.id, read.keys, read.wait));
}

/// `late`: the node's peers noticed the death before its agent and broke their generation. Their report uses
/// no budget, but the failure that caused it does.
void JobMachine::OnFailure(const std::string& node_id, const WorkerFailure& failure, bool late,
                           TimePoint now) {
  if (!late && generation_.result_safe()) {
    effects_.Log(absl::StrCat(DescribeWithLog(failure), "; the job's result is safe, so it does not matter"));
    generation_.Finish(node_id);
    return;
  }
  if (late) generation_.ExplainBreak();
  backoff_.Clear();
  // Only this node is at fault: the program works on others.
  const bool hopeless_here = !budget_.WhyHopeless(failure).empty() && !budget_.ConcernsAll(failure);
  if (hopeless_here && roster_.RunsWithout(node_id, progressed_)) return Evict(node_id, failure);
  // One failure of a generation counts, the one that ends it. If more are known than the generation began
  // with, an earlier service has counted that one, and a survivor has said so.
  if (budget_.count() > generation_.last()->restart_count) {
    const Cause counted = roster_.About(node_id, budget_.Died(failure, /*counted_before=*/true));
    return late ? effects_.Log(rendezvous::Describe(counted)) : Dissolve(counted);
  }
  streak_.OnFailure(failure, backoff_.Progressed(now), now);
  if (std::string why = budget_.Note(failure); !why.empty()) {
    if (const std::string same = streak_.Summary(budget_.count() + 1); !same.empty())
      absl::StrAppend(&why, "; ", same);
    // Another node may have failed earlier in this generation and be the cause.
    failing_.emplace(node_id, failure, std::move(why), now);
    return timers_.Stop();
  }
  budget_.Spend();
  WorkerDied died = budget_.Died(failure);
  streak_.Name(&died);
  if (!late) return Dissolve(roster_.About(node_id, std::move(died)));
  effects_.Log(absl::StrCat(DescribeWithLog(failure), ", which broke the collectives of its generation; ",
                            budget_.UsedText()));
}

/// Handles workers that cannot start: before the first generation the job fails, later only their node does.
void JobMachine::OnFailureAtStart(const std::string& node_id, const WorkerFailure& failure, TimePoint now) {
  if (outcome_) return;
  if (generation_.known()) {
    return effects_.Log(absl::StrCat(roster_.Name(node_id), " cannot take part: ", DescribeWithLog(failure)));
  }
  End(JobOutcome{false, ExitCodeOf(failure), "it exited during start-up", failure}, now);
}

/// Slows down generations that follow each other because their workers cannot connect.
void JobMachine::OnBroken(const std::string& node_id, const CollectivesBroken& broken, TimePoint now) {
  const Cause cause = roster_.About(node_id, WorkerStuck{broken.rank, broken.why});
  const std::string what = rendezvous::Describe(cause);
  if (generation_.result_safe()) {
    effects_.Log(absl::StrCat(what, "; the job's result is safe, so it does not matter"));
    generation_.Finish(node_id);
    return;
  }
  if (failing_) return;
  Dissolve(cause);
  generation_.Break();
  backoff_.OnBreak(now, !broken.unconnected);
  if (!backoff_.exhausted()) return;
  End(FailedOutcome(absl::StrCat(backoff_.breaks(),
                                 " generations in a row broke without a step and without a failed process: ",
                                 what, "; do the nodes reach each other?")),
      now);
}

void JobMachine::OnSteps(int64_t step) {
  progressed_ = true;
  backoff_.OnStep();
  departures_.OnStep();
  separations_.OnStep(generation_);
  quorum_.predecessors().Clear();
  const std::vector<std::string> refunds = budget_.OnSteps(step);
  for (const std::string& text : refunds) effects_.LogDetail(text);
  if (refunds.empty()) return;
  // Nodes keep the budget for a service that knows nothing.
  for (const auto& [node_id, node] : roster_.nodes()) {
    if (!node.expected) effects_.Send(node_id, BudgetChanged{budget_.count(), budget_.refunded()});
  }
}

void JobMachine::OnFinished(const std::string& node_id, bool final) {
  if (!generation_.Finish(node_id, final)) return;
  effects_.LogDetail(absl::StrCat(roster_.Name(node_id), " finished (", generation_.finished().size(), " of ",
                                  generation_.last()->members.size(), ")"));
}

void JobMachine::OnLeaving(const std::string& node_id, const Leaving& leaving, TimePoint now) {
  if (outcome_) return roster_.Erase(node_id);  // it knows how the job ended
  const Cause cause = roster_.About(node_id, leaving.why);
  effects_.LogGone(cause, generation_.FindRunning(node_id) != nullptr);
  backoff_.Clear();        // this may have broken the last generation
  if (leaving.stopping) {  // still in its generation; its next offer is not awaited
    MemberGone(cause);
    return roster_.Change(node_id, [](RosterNode& node) { node.place.reset(); });
  }
  departures_.OnLeft(node_id);
  spares_.OnGone(node_id);
  suspects_.Erase(node_id);
  if (generation_.FindLast(node_id) != nullptr) generation_.RuleOut();
  // Drops its waiting reads: an agent that has left expects no answer.
  store_.DropNode(node_id);
  roster_.Erase(node_id);
  control_.OnGone(node_id);
  MemberGone(cause);
  // If no node is left, none can be notified: the outcome is for the log.
  if (!roster_.empty() || !generation_.finished().empty() || failing_ || !HasAuthority()) return;
  const std::optional<JobOutcome> last = control_.OutcomeOfLast(cause, departures_.AnyLost(now));
  if (last && departures_.FindRunning(generation_, roster_, now) == nullptr) End(*last, now);
}

}  // namespace mtrun::rendezvous
