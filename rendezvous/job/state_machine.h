// The rendezvous decisions of one job: its members, their generation and ranks, and how the job ends. Pure:
// time and the seed of generation ids are arguments, effects are data. Not thread-safe; a value with == and
// Describe(). It holds the transitions; its knowledge is in the values below, each with its own rules.
//
//           MAX nodes are ready, or MIN after the last call, or a reported generation is adopted
//   forming -------------------------------------------------------------------------> running
//     ^  ^                                                                              |  |
//     |  +--- a worker failed with budget left, a loss, a leave, a join with room ------+  |
//     |                                   all members finished, or a failure without budget |
//     +----------------------------- all nodes gone ----------------------- ended <--------+
//
// A job that is forming also ends at join_timeout, or if an agent fails the job.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/authority/departures.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/remembered_job.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/authority/spares.h"
#include "rendezvous/authority/takeover_quorum.h"
#include "rendezvous/job/break_backoff.h"
#include "rendezvous/job/control_news.h"
#include "rendezvous/job/effect_list.h"
#include "rendezvous/job/end_check.h"
#include "rendezvous/job/failure_streak.h"
#include "rendezvous/job/formation_timers.h"
#include "rendezvous/job/key_value_store.h"
#include "rendezvous/job/restart_budget.h"
#include "rendezvous/job/root_cause_window.h"
#include "rendezvous/job/separations.h"
#include "rendezvous/job/suspects.h"
#include "rendezvous/job/waiting_news.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/job_view.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class JobMachine {
 public:
  struct Options {
    uint64_t seed = 0;  // seed of the generation ids
    TimePoint service_started;
    Duration recovery_window = std::chrono::seconds(3);
    /// The service is part of an agent that starts with this very job. An earlier generation has lost a
    /// member with the agent before it, so formation need not wait for the recovery window.
    bool host_begins = false;
    /// Last number in an earlier record of this job: numbers of generations only grow.
    uint64_t last_number = 0;
    TakeoverQuorum::Role role = {};
    /// State that a service at this endpoint wrote down before it died.
    std::optional<RememberedJob> remembered = {};
    /// Incarnation of the run that continues, if an earlier record knows nothing else of it; 0: a new run.
    uint64_t run = 0;
    /// When a node came here although the job had moved to another service of the list. That service may have
    /// died since, and more of its nodes may be on their way.
    TimePoint returned = {};
    bool operator==(const Options&) const = default;
  };
  /// How long an ended job is kept so that late nodes can learn its outcome.
  static constexpr Duration kEndedLinger = std::chrono::seconds(10);
  static constexpr Duration kOftenProbe = std::chrono::milliseconds(300);
  static constexpr Duration kQuickProbe = std::chrono::milliseconds(50);  // after a stream has ended
  static constexpr Duration kRareProbe = std::chrono::seconds(5);  // with authority, and no member is missing
  static constexpr size_t kMaxEarlyReports = 8192;                 // per node

  /// `settings` are those of the first agent; the others must have the same.
  JobMachine(JobSettings settings, Options options);

  /// With more nodes, not all invariants are checked at each event, unless this is a debug build.
  static constexpr size_t kMaxChecked = 64;

  /// Takes one event and returns the effects to perform, in order. Checks the invariants after it, and before
  /// it the cheap ones (all in debug builds).
  std::vector<Effect> Step(const Event& event, TimePoint now);
  /// Returns when a Tick is due, if time alone can change anything.
  std::optional<TimePoint> NextDeadline() const;
  /// Returns what to find out every ProbeInterval(), to be answered with ProbeResult; empty if all is known.
  std::optional<ProbeRequest> WantsProbe() const;
  Duration ProbeInterval() const;
  /// True if no node is left and no generation may still run anywhere. Then the record of this job can be
  /// dropped, and its id starts afresh.
  bool Gone() const;
  bool Has(const std::string& node_id) const { return roster_.Find(node_id) != nullptr; }
  /// True if the member has been silent for so long that it would be replaced if that helped the job.
  bool IsSuspected(const std::string& node_id) const { return suspects_.Suspected(node_id); }
  /// Returns the running generation if the node is known to run it, else {0, 0}.
  Generation RunBy(const std::string& node_id) const;
  /// R3: returns the answer to a heartbeat sent at `sent`. The lease is for the generation that the node is
  /// known to run. A service without the job gives none, because an unknown generation may follow.
  Lease LeaseFor(const std::string& node_id, Duration sent, TimePoint now) const;
  /// Returns the end of the recovery window, during which nodes may still report a newer generation.
  TimePoint RecoveryEnds() const;
  /// Checks every invariant, or only the O(1) ones if `all` is false.
  void CheckInvariants(bool all = true) const;

  const JobSettings& settings() const { return settings_; }
  const Roster& roster() const { return roster_; }
  const GenerationRecord& generation() const { return generation_; }
  MembershipView membership() const { return {generation_, roster_, departures_}; }
  const std::optional<JobOutcome>& outcome() const { return outcome_; }
  /// Distinguishes this run of the job from others under the same id. Not 0.
  uint64_t incarnation() const { return run_.incarnation(); }
  /// Why the job is certain of its run; see JobRun.
  RunProof Proof(TimePoint now) const { return run_.Proof(now); }
  /// The last generation that was formed, adopted or learned of; empty before the first.
  const std::optional<Assignment>& last_generation() const { return generation_.last(); }
  /// Returns its members, and those of earlier generations that the next one may wait for too.
  std::vector<const Member*> AwaitedMembers() const;
  /// True if a member is known to run the last generation: a service that starts afresh here must know of it.
  bool IsKnownToRun() const;
  /// Ids of members of the last generation that have answered at their presence ports.
  const std::set<std::string>& verified() const { return departures_.verified(); }
  /// The nodes outside of the last generation, for the same purpose.
  const Spares& spares() const { return spares_; }
  /// True if this service may change the membership of the job.
  bool HasAuthority() const { return quorum_.Authority(membership()).granted(); }
  /// The run that it was to continue when it ended without a generation: that run has not ended. 0: none.
  uint64_t left_run() const { return left_run_; }
  /// True if the job has moved to another service.
  bool moved() const { return quorum_.moved(); }
  /// How its run ended, if that was at another service.
  const std::optional<EndedRun>& ended_elsewhere() const { return ended_elsewhere_; }
  /// True if no other service can have the job.
  bool IsServedAlone() const { return !options_.role.embedded && settings_.endpoints.size() <= 1; }
  /// The highest number given to a generation.
  uint64_t last_number() const { return generation_.number(); }
  JobView View(TimePoint now) const;
  /// Returns the state for people, with times relative to `now`. It is not complete: use == to compare two.
  std::string Describe(TimePoint now) const;
  bool operator==(const JobMachine&) const = default;

 private:
  // Events (state_machine.cc).
  void OnOpened(const std::string& node_id, const StreamOpened& event, TimePoint now);
  void OnHeartbeat(const std::string& node_id, const Heartbeat& event, TimePoint now);
  void OnSaid(const std::string& node_id, const AgentSaid& event, TimePoint now);
  void OnOffer(const std::string& node_id, const OfferSent& sent, const std::optional<Assignment>& held,
               TimePoint now);
  void OnFreshOffer(const std::string& node_id, const Offer& offer, const Generation& seen);
  void OnHeldGeneration(const std::string& node_id, const Offer& offer, const std::optional<Assignment>& held,
                        TimePoint now);
  void OnReport(const std::string& node_id, const AgentEvent& event, TimePoint now);
  void OnFailure(const std::string& node_id, const WorkerFailure& failure, bool late, TimePoint now);
  void OnFailureAtStart(const std::string& node_id, const WorkerFailure& failure, TimePoint now);
  void OnBroken(const std::string& node_id, const CollectivesBroken& broken, TimePoint now);
  void OnSteps(int64_t step);
  void OnFinished(const std::string& node_id, bool final);
  void OnLeaving(const std::string& node_id, const Leaving& leaving, TimePoint now);
  void OnControl(const ControlAsked& asked, TimePoint now);  // state_machine_control.cc

  // Losses (state_machine_losses.cc).
  void OnTick(TimePoint now);
  void OnProbed(const ProbeResult& result, TimePoint now);
  void OnRefused(const std::set<std::string>& dead);
  void LoseSuspects(TimePoint now);
  size_t MembersNeeded() const;
  bool MostAreSilent() const;
  bool AllAreHere() const;
  void Lose(const std::string& node_id, const NodeLost& why);
  void MemberGone(const Cause& cause);

  // Decisions (state_machine_decisions.cc).
  void Settle(TimePoint now);
  void HearOf(const Assignment& last, const std::string& from, TimePoint now);
  void SettleForming(TimePoint now);
  FormationDecision DecideNext(TimePoint now);
  void Form(const FormationDecision& decision, TimePoint now);
  void Adopt(const std::string& reporter, const Assignment& held, TimePoint now);
  void Begin(Assignment assignment, TimePoint now);
  void Dissolve(const Cause& cause, bool graceful = false);
  void End(JobOutcome outcome, TimePoint now);
  void Evict(const std::string& node_id, const WorkerFailure& failure);
  void MoveTo(const PeerService& peer);
  void UpdateWaiting(TimePoint now);

  // Constant after construction.
  JobSettings settings_;
  Options options_;

  JobRun run_;
  Roster roster_;
  GenerationRecord generation_;
  FormationTimers timers_;
  RestartBudget budget_;
  BreakBackoff backoff_;
  FailureStreak streak_;
  Departures departures_;
  Separations separations_;
  Suspects suspects_;
  EndCheck end_check_;
  TakeoverQuorum quorum_;
  Spares spares_;
  WaitingNews news_;
  ControlNews control_;
  KeyValueStore store_;      // for the running generation
  bool progressed_ = false;  // a generation of this job has made a step
  bool from_file_ = false;   // the last generation is known only from the state file
  uint64_t left_run_ = 0;
  std::optional<EndedRun> ended_elsewhere_;
  std::optional<RootCauseWindow> failing_;  // set while the job is about to end
  std::optional<JobOutcome> outcome_;       // set if the job has ended
  std::optional<TimePoint> linger_ends_;    // of an ended job
  std::string reason_;                      // for the last decision
  std::optional<TimePoint> phase_since_;
  EffectList effects_;  // effects of the step in progress; empty between steps
};

}  // namespace mtrun::rendezvous
