// One job's rendezvous, decided: who is in, in which generation, with which rank, and how the job ends. Pure:
// time and the seed of generation ids are arguments, effects are data. Not thread-safe; a value with == and
// Describe(). It holds the transitions; what it knows lies in the values below, each with its own rules.
//
//            offers of max, or of min           worker failed with budget left, loss, leave, join with room
//   forming ---------------------------> running ---------------------------------------------------------->
//   forming
//      ^      (or a reported generation      |  all members finished, or a failure without budget
//      |       is adopted)                   v
//      +--- all nodes gone <------------- ended      (forming also ends: join_timeout, or an agent that fails
//      the job)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/break_backoff.h"
#include "rendezvous/control_news.h"
#include "rendezvous/departures.h"
#include "rendezvous/effect_list.h"
#include "rendezvous/events.h"
#include "rendezvous/formation.h"
#include "rendezvous/formation_timers.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/job_run.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/job_view.h"
#include "rendezvous/key_value_store.h"
#include "rendezvous/remembered_job.h"
#include "rendezvous/restart_budget.h"
#include "rendezvous/root_cause_window.h"
#include "rendezvous/roster.h"
#include "rendezvous/separations.h"
#include "rendezvous/takeover_quorum.h"
#include "rendezvous/types.h"
#include "rendezvous/waiting_news.h"

namespace mtrun::rendezvous {

class JobMachine {
 public:
  struct Options {
    uint64_t seed = 0;  // of generation ids
    TimePoint service_started;
    Duration recovery_window = std::chrono::seconds(3);
    /// The service lives in an agent that begins with this very job: what ran before has lost a member with
    /// the agent before it, so formation has nothing to spare by waiting for the recovery window.
    bool host_begins = false;
    /// Of generations, by an earlier record of this job: numbers only grow.
    uint64_t last_number = 0;
    TakeoverQuorum::Role role = {};
    /// What a service at this endpoint wrote down before it died.
    std::optional<RememberedJob> remembered = {};
    /// The incarnation of the run that goes on, of which an earlier record knows nothing else; 0: a new one.
    uint64_t run = 0;
    /// When a node came here although the job had moved to another service of the list: that one may have
    /// died since, and others be on their way from there.
    TimePoint returned = {};
    bool operator==(const Options&) const = default;
  };
  /// So long an ended job waits for nodes that have not heard of it.
  static constexpr Duration kEndedLinger = std::chrono::seconds(10);
  static constexpr Duration kOftenProbe = std::chrono::milliseconds(300);
  static constexpr Duration kQuickProbe = std::chrono::milliseconds(50);  // a stream has ended: is it dead?
  static constexpr Duration kRareProbe = std::chrono::seconds(5);  // with authority, and nobody is missing
  static constexpr size_t kMaxEarlyReports = 8192;                 // of one node

  /// `settings` are those of the first agent; others must say the same.
  JobMachine(JobSettings settings, Options options);

  /// Of a job with more nodes not all invariants are checked at each event, unless this is a debug build.
  static constexpr size_t kMostChecked = 64;

  /// Takes one event and says what to do, in order. Invariants are checked after it, and before it those that
  /// cost little (in debug builds all).
  std::vector<Effect> Step(const Event& event, TimePoint now);
  /// When a Tick is due, if time alone can change anything.
  std::optional<TimePoint> NextDeadline() const;
  /// What to find out, and how long after the last time, and to answer with ProbeResult; nothing when all is
  /// known.
  std::optional<ProbeRequest> WantsProbe() const;
  Duration ProbeInterval() const {
    if (!quorum_.Applies(generation_) && !departures_.Fallen(generation_, roster_).empty())
      return kQuickProbe;
    const bool by_members = quorum_.listed() && !quorum_.DecidedByServices(generation_, departures_);
    const bool settled =
        by_members && HasAuthority() && quorum_.Missing(generation_, roster_, departures_).empty();
    return settled ? kRareProbe : kOftenProbe;
  }
  /// No node is left and no generation may still run anywhere: the record of this job can go, and its id
  /// starts afresh.
  bool Gone() const;
  bool Has(const std::string& node_id) const { return roster_.Find(node_id) != nullptr; }
  void AppendNodeIds(std::vector<std::string>* ids) const;
  /// The generation that runs when the node is known to run it, else {0, 0}.
  Generation RunBy(const std::string& node_id) const;
  /// The answer to a heartbeat that the node sent then. It has a lease for the generation that it is known to
  /// run, and none from a service that does not have the job: a generation that it does not know may follow.
  Lease LeaseFor(const std::string& node_id, Duration sent, TimePoint now) const;
  /// Until then nodes with a newer generation than this service knows of may be on their way to it.
  TimePoint RecoveryEnds() const;
  /// All of them, or what costs the same whatever the number of nodes.
  void CheckInvariants(bool all = true) const;

  const JobSettings& settings() const { return settings_; }
  const Roster& roster() const { return roster_; }
  const GenerationRecord& generation() const { return generation_; }
  const std::optional<JobOutcome>& outcome() const { return outcome_; }
  /// Tells this run of the job from another one under the same id. Not 0.
  uint64_t incarnation() const { return run_.incarnation(); }
  /// Why it is certain of that; see JobRun.
  RunProof Proof(TimePoint now) const { return run_.Proof(now); }
  /// The last one that was formed, adopted or heard of; nothing before the first.
  const std::optional<Assignment>& last_generation() const { return generation_.last(); }
  /// Its members, and those of earlier ones that the next one may wait for too.
  std::vector<const Member*> AwaitedMembers() const;
  /// A member of the last generation is known to run it: a service that starts afresh here must know of it.
  bool IsKnownToRun() const;
  /// Ids of members of the last generation that have answered at their presence ports.
  const std::set<std::string>& verified() const { return departures_.verified(); }
  /// This service may change who is in the job.
  bool HasAuthority() const { return quorum_.Allows(generation_, roster_, departures_); }
  /// The run that it was to continue when it ended without a generation: that one has not. 0: none.
  uint64_t left_run() const { return left_run_; }
  /// To another service.
  bool moved() const { return quorum_.moved(); }
  /// How its run has ended, where that was at another service.
  const std::optional<EndedRun>& ended_elsewhere() const { return ended_elsewhere_; }
  /// No other service can have the job.
  bool IsServedAlone() const { return !options_.role.embedded && settings_.endpoints.size() <= 1; }
  /// The highest one that was given to a generation.
  uint64_t last_number() const { return generation_.number(); }
  JobView View(TimePoint now) const;
  /// The state for people, times relative to `now`. Not the whole of it: == decides whether two are alike.
  std::string Describe(TimePoint now) const;
  bool operator==(const JobMachine&) const = default;

 private:
  // Events (state_machine.cc).
  void OnOpened(const std::string& node_id, const StreamOpened& event, TimePoint now);
  void OnHeartbeat(const std::string& node_id, const Heartbeat& event, TimePoint now);
  void OnSaid(const std::string& node_id, const AgentSaid& event, TimePoint now);
  void OnTick(TimePoint now);
  void OnProbed(const ProbeResult& result, TimePoint now);
  void OnOffer(const std::string& node_id, const Offer& offer, const AgentSaid& said, TimePoint now);
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

  // Decisions (state_machine_decisions.cc).
  void Settle(TimePoint now);
  void HearOf(const Assignment& last, const std::string& from, TimePoint now);
  void SettleForming(TimePoint now);
  FormationDecision DecideNext(TimePoint now);
  void Form(const FormationDecision& decision, TimePoint now);
  void Adopt(const std::string& reporter, const Assignment& held, TimePoint now);
  void Begin(Assignment assignment, TimePoint now);
  void Dissolve(const std::string& reason, bool graceful = false);
  void End(JobOutcome outcome, TimePoint now);
  void Evict(const std::string& node_id, const WorkerFailure& failure);
  void Lose(const std::string& node_id, const std::string& why);
  void MemberGone(const std::string& node_id, const std::string& what);
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
  Departures departures_;
  Separations separations_;
  TakeoverQuorum quorum_;
  WaitingNews news_;
  ControlNews control_;
  KeyValueStore store_;      // of the generation that runs
  bool progressed_ = false;  // a generation of this job has made a step
  bool from_file_ = false;   // the last generation is known from what was written down alone
  uint64_t left_run_ = 0;
  std::optional<EndedRun> ended_elsewhere_;
  std::optional<RootCauseWindow> failing_;  // the job is as good as over
  std::optional<JobOutcome> outcome_;       // the job has ended
  std::optional<TimePoint> linger_ends_;    // of an ended job
  std::string reason_;                      // of the last decision
  std::optional<TimePoint> phase_since_;
  EffectList effects_;  // of the step in progress; empty between steps
};

}  // namespace mtrun::rendezvous
