// The decisions of a job: the consequences of its state after an event.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {
namespace {

constexpr char kWaitsForRunning[] = "the service has just started and waits for nodes that still run";

/// Returns the last line, in which a program names the cause before it exits for wrong settings.
std::string LastLine(const std::string& text) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  return trimmed.substr(trimmed.rfind('\n') + 1);
}

/// Returns the node, or the member with more workers, that can join the running generation; empty for none.
std::optional<Cause> WhoCanJoin(const GenerationRecord& generation, const Roster& roster, int max_nodes) {
  const Attendance& attendance = roster.attendance();
  if (!generation.running() || !generation.finished().empty() || !attendance.AllConfirmed())
    return std::nullopt;
  const std::vector<Member>& members = generation.last()->members;
  if (!attendance.grown().empty()) {
    const Member& member = members[static_cast<size_t>(*attendance.grown().begin())];
    const int ready = roster.nodes().at(member.node_id).offer->workers;
    return roster.About(member.node_id, NodeGrown{ready, member.workers});
  }
  // The generation runs, so no member is among the ready nodes.
  const RosterIndex::Ids& ready = roster.index().ready();
  const bool room = members.size() < static_cast<size_t>(max_nodes);
  return room && !ready.empty() ? std::optional(roster.About(*ready.begin(), NodeJoined())) : std::nullopt;
}

/// Returns the news for a node that the running generation does not admit.
std::string SpareText(const GenerationRecord& generation, int max_nodes) {
  if (!generation.finished().empty()) return "the job is finishing, no more nodes are admitted";
  const size_t members = generation.last()->members.size();
  if (members < static_cast<size_t>(max_nodes)) return kWaitsForRunning;
  return absl::StrCat("spare: ", members, " of at most ", max_nodes,
                      members == 1 ? " node runs" : " nodes run", "; this one takes over when one is lost");
}

/// Sends the membership to nodes outside of the running generation: a service that knows nothing may be
/// reached first, or only, by them. Nodes of another run are not included. Nodes of no run are included only
/// if it is certain which run continues, or if they are in an earlier generation and are not notified yet.
void TellMembership(const GenerationRecord& generation, const JobRun& run, const TakeoverQuorum& quorum,
                    Roster* roster, EffectList* effects) {
  if (!generation.known()) return;
  std::optional<Membership> news;
  for (const std::string& node_id : RosterIndex::Ids(roster->attendance().untold())) {
    const uint64_t of = roster->Find(node_id)->run;
    const bool joins = of == 0 && (run.proven() || quorum.predecessors().Find(node_id) != nullptr);
    if (of != run.incarnation() && !joins) continue;
    roster->Change(node_id, [&](RosterNode& node) { node.knows = generation.id(); });
    if (generation.FindLast(node_id) != nullptr) continue;
    if (!news) news = Membership{Assigned(*generation.last())};
    effects->Send(node_id, *news);
  }
}

/// Forgets a generation of which no member is left.
void Forget(GenerationRecord* generation, Roster* roster) {
  generation->Forget();
  roster->Follow(std::nullopt);
}

/// Returns why the job is at another service.
std::string WhyThere(const PeerService& peer, const GenerationRecord& generation, const JobRun& run) {
  if (generation.known() && peer.FindEnd(run) != nullptr) return "it has ended there";
  if (generation.known() && peer.proof != RunProof::kNone && run.IsOther(peer.incarnation))
    return "another run of it has begun there";
  if (peer.generation.number > 0) return absl::StrCat("it has ", Describe(peer.generation));
  return generation.known() && peer.last_number > generation.id().number
             ? absl::StrCat("it has heard of generation ", peer.last_number)
             : "it comes first in the list";
}

}  // namespace

void JobMachine::Settle(TimePoint now) {
  if (failing_ && !outcome_) {
    if (now >= failing_->due() || failing_->Complete(generation_, roster_)) End(failing_->Outcome(), now);
    return;
  }
  if (generation_.AllFinished()) {
    if (!end_check_.MayEnd(AllAreHere(), now)) return;
    const size_t members = generation_.last()->members.size();
    return End(JobOutcome{true, 0,
                          members == 1 ? std::string("its node finished")
                                       : absl::StrCat("all ", members, " nodes finished"),
                          std::nullopt},
               now);
  }
  const size_t least = std::max(MembersNeeded(), static_cast<size_t>(settings_.min_nodes));
  if (const auto apart = separations_.Settle(generation_, least, &roster_, &effects_, now))
    Dissolve({"", "", *apart});
  if (const auto joins = WhoCanJoin(generation_, roster_, settings_.max_nodes))
    Dissolve(*joins, /*graceful=*/true);
  // All that ran before a cold restart is gone for certain, so the job begins as at a first start.
  const bool nothing_left = from_file_ && quorum_.NothingLeft(membership(), now) && HasAuthority();
  if (nothing_left && !outcome_ && !generation_.running()) {
    Forget(&generation_, &roster_);
    // The run may continue, or may have ended, elsewhere.
    if (!IsServedAlone()) run_.Become(NewIncarnation(options_.seed, settings_.job_id));
  }
  if (!outcome_) LoseSuspects(now);
  if (!outcome_ && !generation_.running()) SettleForming(now);
  if (outcome_) return;
  // These nodes came before it was certain that this run is the one that continues.
  if (const auto from = run_.excludes_from(); from && now >= *from) {
    for (const std::string& node_id : roster_.OfOtherRuns(run_, generation_)) {
      effects_.Refuse(node_id, RunReplaced{settings_.job_id});
      Lose(node_id, {"it is of another run"});
    }
  }
  // First, so that a node that learns it is a spare knows the generation for which it is one.
  TellMembership(generation_, run_, quorum_, &roster_, &effects_);
  UpdateWaiting(now);
  // No node is left, here or elsewhere.
  const bool here = generation_.running() || !roster_.empty();
  if (!here && HasAuthority() && departures_.FindRunning(generation_, roster_, now) == nullptr)
    Forget(&generation_, &roster_);
}

/// Takes over a generation that may still run: none is formed before it is over for certain, and its members
/// are awaited as after a restart.
void JobMachine::HearOf(const Assignment& last, const std::string& from, TimePoint now) {
  if (outcome_ || failing_ || run_.Excludes(last.incarnation, now)) return;
  // Another service has told that node that no earlier generation can be followed any more.
  if (last.generation == generation_.id() && last.earlier.empty()) quorum_.predecessors().Clear();
  if (!generation_.MayBeLast(last, settings_)) {
    if (last.incarnation == run_.incarnation() && GenerationRecord::Fits(last, settings_))
      quorum_.predecessors().OnReported(last, generation_.id());
    return;
  }
  // The running one is older: a node that was cut off still held it.
  if (generation_.running())
    Dissolve(roster_.About(from, NewerGeneration{last.generation, NewerGeneration::Source::kKnown}));
  quorum_.OnLearned(generation_.last(), last);
  effects_.LogDetail(
      absl::StrCat("hears of ", rendezvous::Describe(last), " (from ", roster_.Name(from), ")"));
  generation_.HearOf(last);
  from_file_ = false;
  run_.Become(last.incarnation);
  budget_.Raise(last.restart_count, last.refunded);
  departures_.OnGeneration(last, options_.service_started);
  roster_.ClearPlaces();
  roster_.Follow(generation_.last());
  spares_.OnGeneration(roster_, generation_);
  roster_.ExpectAll(last, now + options_.recovery_window, now);
}

// ---- forming ----

void JobMachine::SettleForming(TimePoint now) {
  const FormationDecision decision = DecideNext(now);
  timers_.Retry(decision.retry_at);
  reason_ = decision.reason;
  if (decision.form && generation_.number() < kMaxGenerationNumber) return Form(decision, now);
  std::string end;
  if (decision.form)
    end =
        absl::StrCat("the numbers of its generations are used up: a node or service has reported generation ",
                     generation_.number(), "; start it under another --rdzv_id");
  if (!generation_.known() && timers_.JoinTimedOut(now)) {
    end = absl::StrCat("the job did not start within ", HumanDuration(settings_.join_timeout),
                       " (join_timeout): ", reason_);
  }
  if (generation_.known()) timers_.OnNodes(roster_.size(), now);
  if (generation_.known() && timers_.HoldTimedOut(now)) {
    end = absl::StrCat("fewer than ", settings_.min_nodes, " nodes for ",
                       HumanDuration(settings_.min_nodes_timeout), " (min_nodes_timeout): ", reason_);
  }
  if (!end.empty()) End(FailedOutcome(end), now);
}

/// Decides about the nodes, and applies the job's own reasons to put a formation off.
FormationDecision JobMachine::DecideNext(TimePoint now) {
  FormationInput input = roster_.Candidates(/*whole=*/false);
  if (!generation_.known()) timers_.OnReady(input.ready_nodes, now);
  input.min_nodes = settings_.min_nodes;
  input.max_nodes = settings_.max_nodes;
  input.first = !generation_.known();
  input.last_call_ends = timers_.last_call_ends();
  input.cold_start_waits = settings_.cold_start_wait > settings_.last_call;
  const bool begins = options_.host_begins && !quorum_.listed();
  input.recovery_ends = begins ? options_.service_started : RecoveryEnds();
  FormationDecision decision = DecideFormation(input, now);
  if (!decision.form) return decision;
  // Even if all nodes are here: a node that runs an older generation reaches one of the services first.
  if (quorum_.listed() && input.first && now < input.recovery_ends)
    return PutOff(kWaitsForRunning, input.recovery_ends);
  if (const std::string name = roster_.YetToSay(generation_.id().number); !name.empty())
    return PutOff(absl::StrCat("waiting for ", name, " to say what it runs"));
  const MembershipView view = membership();
  if (quorum_.DecidedByServices(view)) {
    // Another service that takes this one for gone may be starting again; it is visible by then.
    const TimePoint seen = options_.service_started + options_.recovery_window;
    if (quorum_.listed() && now < seen) return PutOff(kWaitsForRunning, seen);
    if (quorum_.Stale(now)) return PutOff(rendezvous::Describe({FormationRight::Ground::kNotProbed}, view));
  }
  if (const auto pause = backoff_.PauseEnds(now)) return PutOff(backoff_.PauseText(), pause);
  if (const auto pause = streak_.PauseEnds(now)) return PutOff(streak_.PauseText(), pause);
  if (const FormationRight right = quorum_.Authority(view); !right.granted())
    return PutOff(rendezvous::Describe(right, view));
  if (const Assignment* running = departures_.FindRunning(generation_, roster_, now))
    return PutOff(departures_.DescribeHold(*running), departures_.FirstLeaseEnd(generation_, roster_));
  input.ready = roster_.Candidates(/*whole=*/true).ready;
  decision = DecideFormation(input, now);
  if (!decision.form) return decision;
  if (const FormationRight right = quorum_.RightToForm(decision.order, view); !right.granted())
    return PutOff(rendezvous::Describe(right, view));
  return decision;
}

void JobMachine::Form(const FormationDecision& decision, TimePoint now) {
  const Generation generation = generation_.Next(options_.seed, settings_.job_id);
  std::vector<Offer> offers;
  for (const std::string& node_id : decision.order) offers.push_back(*roster_.nodes().at(node_id).offer);
  Assignment formed = MakeAssignment(generation, offers, budget_.count(), budget_.refunded());
  formed.incarnation = run_.incarnation();
  run_.Prove(RunProof::kFormed);
  departures_.OnFormed(generation_, roster_, now);
  formed.earlier = quorum_.OnFollowed(membership(), formed);
  const Assigned assigned(std::move(formed));
  Begin(assigned.assignment(), now);
  effects_.LogDetail(
      absl::StrCat("forms ", rendezvous::Describe(assigned.assignment()), " (", decision.reason, ")"));
  for (const Member& member : assigned.assignment().members) {
    roster_.Change(member.node_id, [&](RosterNode& node) {
      node.offered = false;
      node.confirmed = true;
      node.told.clear();
      node.knows = generation;
      Roster::Assign(node, member, generation.number);
    });
    effects_.Send(member.node_id, assigned);
  }
}

void JobMachine::Adopt(const std::string& reporter, const Assignment& held, TimePoint now) {
  if (generation_.running())
    Dissolve(roster_.About(reporter, NewerGeneration{held.generation, NewerGeneration::Source::kReported}));
  effects_.LogDetail(
      absl::StrCat("adopts ", rendezvous::Describe(held), " (reported by ", roster_.Name(reporter), ")"));
  quorum_.OnLearned(generation_.last(), held);
  Begin(held, now);
  run_.Become(held.incarnation);
  departures_.OnGeneration(held, options_.service_started);
  budget_.Raise(held.restart_count, held.refunded);
  roster_.ExpectAll(held, now + options_.recovery_window, now);
  std::string stopped;
  for (const Member& member : held.members) {
    if (roster_.nodes().at(member.node_id).offered) stopped = member.node_id;
  }
  if (!stopped.empty()) Dissolve(roster_.About(stopped, NodeStopped()));
}

void JobMachine::Begin(Assignment assignment, TimePoint now) {
  generation_.Begin(std::move(assignment));
  backoff_.OnGeneration(now);
  end_check_.Clear();
  departures_.OnGeneration(*generation_.last(), now);
  timers_.Stop();
  separations_.Forget();
  from_file_ = false;
  roster_.ClearPlaces();
  roster_.Follow(generation_.last());
  spares_.OnGeneration(roster_, generation_);
}

// ---- ends ----

void JobMachine::Dissolve(const Cause& cause, bool graceful) {
  if (failing_) return;  // the job ends at once
  generation_.Stop();
  reason_ = rendezvous::Describe(cause);
  const std::string text = absl::StrCat(rendezvous::Describe(generation_.id()), " ended: ", reason_);
  effects_.LogDetail(text);
  effects_.Reply(generation_.id(), store_.Close(text));
  const GenerationDissolved news{generation_.id(), cause, budget_.count(), budget_.refunded(), graceful};
  for (const Member& member : generation_.last()->members) {
    const RosterNode* node = roster_.Find(member.node_id);
    // A node that has not yet said that it runs this generation is notified when it does. A node that offers
    // again has stopped already.
    if (node != nullptr && node->confirmed && !node->offered) effects_.Send(member.node_id, news);
  }
}

void JobMachine::End(JobOutcome outcome, TimePoint now) {
  // No generation was known, so this is not the end of a run that is known by name only and whose nodes may
  // be cut off.
  if (!generation_.known()) {
    if (IsServedAlone() && generation_.number() > 0) left_run_ = run_.incarnation();
    run_.Become(NewIncarnation(options_.seed, settings_.job_id));
  }
  failing_.reset();
  reason_ = WhyEnded(outcome);
  effects_.LogDetail(absl::StrCat("job ended: ", rendezvous::Describe(outcome)));
  effects_.Reply(generation_.id(), store_.Close(absl::StrCat("the job has ended: ", reason_)));
  outcome_ = std::move(outcome);
  linger_ends_ = now + kEndedLinger;
  generation_.Stop();
  timers_.Stop();
  suspects_.Clear();
  end_check_.Clear();
  for (const auto& [node_id, known] : roster_.nodes()) {
    for (const AgentEvent& event : known.early) effects_.ReplyOver(node_id, event);
    roster_.Change(node_id, [](RosterNode& node) {
      node.early.clear();
      node.offered = false;
    });
    effects_.Send(node_id, JobEnded{*outcome_});
  }
  if (!generation_.known()) return;
  // A member that is cut off and not gone for certain may come back and learn how the job ended.
  for (const Member& member : generation_.last()->members) {
    if (!departures_.Gone(member.node_id)) roster_.Expect(member, *linger_ends_, now);
  }
}

void JobMachine::Evict(const std::string& node_id, const WorkerFailure& failure) {
  NodeUnfit unfit{failure};
  unfit.failure.message = LastLine(failure.message);
  const Cause cause = roster_.About(node_id, std::move(unfit));
  const bool member = generation_.FindRunning(node_id) != nullptr;
  store_.DropNode(node_id);
  departures_.OnLeft(node_id);
  spares_.OnGone(node_id);
  suspects_.Erase(node_id);
  effects_.Refuse(cause);
  roster_.Erase(node_id);
  control_.OnGone(node_id);
  if (member) Dissolve(cause);
}

/// Redirects the agents, with what they hold, to `peer`. This service forgets the job.
void JobMachine::MoveTo(const PeerService& peer) {
  effects_.Log(absl::StrCat("the job is at ", peer.endpoint, ": ", WhyThere(peer, generation_, run_)));
  quorum_.OnMoved();
  suspects_.Clear();
  generation_.Saw(peer.generation.number);
  if (generation_.running()) {
    // The agents are not notified: the generation may continue there.
    effects_.Reply(generation_.id(), store_.Close("the service has moved"));
    generation_.Stop();
  }
  ended_elsewhere_.reset();
  if (const EndedRun* end = peer.FindEnd(run_); generation_.known() && end != nullptr)
    ended_elsewhere_ = *end;
  for (const auto& [node_id, node] : roster_.TakeAll()) {
    // A node that was in no generation of the run needs no outcome, and connects again.
    if (!ended_elsewhere_ || node.run == run_.incarnation())
      effects_.Send(node_id, Redirect{peer.endpoint, WhyThere(peer, generation_, run_)});
    effects_.Close(node_id);
  }
}

// ---- news ----

/// Tells waiting nodes why they wait, if that has changed.
void JobMachine::UpdateWaiting(TimePoint now) {
  // If a generation runs, none of its members is among the ready nodes.
  const bool running = generation_.running() && !roster_.index().ready().empty();
  const std::string text = running ? SpareText(generation_, settings_.max_nodes) : reason_;
  for (const std::string& node_id : news_.Choose(roster_.index().told(), text, roster_.size(), now)) {
    roster_.Change(node_id, [&](RosterNode& node) { node.told = text; });
    effects_.Send(node_id, Waiting{text});
  }
}

}  // namespace mtrun::rendezvous
