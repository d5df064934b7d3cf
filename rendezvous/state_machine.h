// One job's rendezvous, decided: who is in, in which generation, with which rank, and how the job ends. Pure:
// time and the seed of generation ids are arguments, effects are data. Not thread-safe; a value with == and
// Describe().
//
//            offers of max, or of min           worker failed with budget left, loss, leave, join with room
//   forming ---------------------------> running ---------------------------------------------------------->
//   forming
//      ^      (or a reported generation      |  all members finished, or a failure without budget
//      |       is adopted)                   v
//      +--- all nodes gone <------------- ended      (forming also ends: join_timeout, or an agent that fails
//      the job)
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/events.h"
#include "rendezvous/formation.h"
#include "rendezvous/key_value_store.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// What people see of a job (Status).
struct NodeView {
  std::string node_id, host, address, state;
  int node_rank = -1, first_rank = -1, workers = 0;  // ranks are -1 for a node that is not a member
  Duration silent_for = Duration::zero(), main_loop_age = Duration::zero();
  std::string note = {};                 // its agent's, "" for none
  Duration note_age = Duration::zero();  // since it came
};
struct JobView {
  JobSettings settings;
  std::string phase, reason;
  Generation generation;
  int restart_count = 0;
  bool authority = true;                  // this service may change the membership
  Duration phase_age = Duration::zero();  // since the phase or the generation changed
  std::vector<NodeView> nodes;            // members by rank, then the others
};

class JobMachine {
 public:
  struct Options {
    uint64_t seed = 0;  // of generation ids
    TimePoint service_started;
    Duration recovery_window = std::chrono::seconds(3);
    /// The service lives in an agent that begins with this very job: what ran before has lost a member with
    /// the agent before it, so formation has nothing to spare by waiting for the recovery window.
    bool host_begins = false;
  };
  static constexpr Duration kStuckMainLoop = std::chrono::seconds(10);  // reported, once, from this age on
  static constexpr Duration kEndedLinger =
      std::chrono::seconds(5);  // how long nodes of an ended job may stay
  static constexpr Duration kOftenLook = std::chrono::milliseconds(300);
  static constexpr Duration kRareLook = std::chrono::seconds(5);  // with authority
  static constexpr size_t kFewNodes = 32;  // beyond it news comes once in kNewsPause and names few nodes
  static constexpr Duration kNewsPause = std::chrono::seconds(1);
  static constexpr int kMaxExtensions = 8;  // late ticks in a row that spare one silent node
  static constexpr size_t kMaxEarlyReports = 8192;
  static constexpr int kMaxEarlyFailures = 3;  // of trainers: a crash loop
  static constexpr int kMaxBreaks = 10;  // generations in a row that break without a step and without a death
  static constexpr Duration kLongestBreakPause = std::chrono::seconds(10);
  static constexpr Duration kLongRun = std::chrono::seconds(60);  // as good as a step, for who reports none
  /// How long a failure that ends the job waits for earlier ones of other nodes.
  static constexpr Duration kVerdictPause = std::chrono::milliseconds(500);

  /// `settings` are those of the first agent; others must say the same.
  JobMachine(JobSettings settings, Options options);

  /// Takes one event and says what to do, in order. Invariants are checked before and after, in every build.
  std::vector<Effect> Step(const Event& event, TimePoint now);
  /// When a Tick is due, if time alone can change anything.
  std::optional<TimePoint> NextDeadline() const;
  /// What to find out, and how long after the last time, and to answer with LookedAround; nothing when there
  /// is no other service.
  std::optional<LookWanted> WantsLook() const;
  Duration LookPause() const { return formed_ && MayRegroup(nullptr) ? kRareLook : kOftenLook; }
  /// No node is left: the record of this job can go, and its id starts afresh. One of several services must
  /// remember a generation that may go on elsewhere.
  bool Gone() const;
  bool Has(const std::string& node_id) const { return nodes_.contains(node_id); }
  void CheckInvariants() const;

  const JobSettings& settings() const { return settings_; }
  const std::optional<JobOutcome>& outcome() const { return outcome_; }
  /// Ids of the newest generations (at most 32), so that a late agent of an ended job can be told apart from
  /// a new one.
  const std::vector<Generation>& issued() const { return issued_; }
  JobView View(TimePoint now) const;
  /// The whole state as text, times relative to `now`: equal texts behave alike from here on.
  std::string Describe(TimePoint now) const;
  bool operator==(const JobMachine& other) const;

 private:
  struct Node {
    std::optional<Offer> offer;  // the last one
    bool offered = false;        // ready for the next generation
    bool starting = false;       // its last offer had no workers yet
    bool connected = false;
    bool confirmed =
        false;              // runs current_ for certain (false for members of an adopted generation at first)
    bool greeted = false;   // has sent an offer over its stream to this record
    bool expected = false;  // known only as a member of an adopted generation so far
    std::optional<int> place;  // node_rank in the last generation
    uint64_t arrival = 0;
    uint64_t joined = 0;  // number of the first generation it was in, 0: none yet
    TimePoint lost_at;    // end of its lease (connected) or of the grace for coming back (not)
    TimePoint heard_at;
    int extensions = 0;
    Duration main_loop_age = Duration::zero();
    std::string note;
    TimePoint noted_at;
    std::string closed_why;
    std::string waiting_text;       // the last Waiting it was sent
    std::vector<AgentEvent> early;  // reports about a generation that may yet be adopted
    bool operator==(const Node&) const = default;
  };
  enum class Phase { kForming, kRunning, kEnded };
  /// A failure that ends the job, while other nodes may still report an earlier one.
  struct Verdict {
    WorkerFailure trigger, cause;
    std::string why;
    TimePoint due;
    std::set<std::string> heard;  // nodes that have reported theirs
    bool operator==(const Verdict&) const = default;
  };

  // One kind of event each.
  void On(const std::string& node_id, const StreamOpened& event, TimePoint now);
  void On(const std::string& node_id, const StreamClosed& event, TimePoint now);
  void On(const std::string& node_id, const Heartbeat& event, TimePoint now);
  void On(const std::string& node_id, const AgentSaid& event, TimePoint now);
  void On(const std::string& node_id, const Tick& event, TimePoint now);
  void On(const std::string& node_id, const LookedAround& event, TimePoint now);
  void OnOffer(const std::string& node_id, const Offer& offer, const AgentSaid& said, TimePoint now);
  void OnFreshOffer(const std::string& node_id, const Offer& offer, const Generation& seen);
  void OnHeldGeneration(const std::string& node_id, const Offer& offer, const std::optional<Assignment>& held,
                        TimePoint now);
  void OnReport(const std::string& node_id, const AgentEvent& event, TimePoint now);
  void OnFailure(const std::string& node_id, const WorkerFailure& failure, TimePoint now);
  void OnFailureAtStart(const std::string& node_id, const WorkerFailure& failure, TimePoint now);
  void OnBroken(const std::string& node_id, const CollectivesBroken& broken, TimePoint now);
  void OnSteps(int64_t step);
  void OnLateFailure(const std::string& node_id, const WorkerFailure& failure, TimePoint now);
  void OnFinished(const std::string& node_id, bool final);
  void OnLeaving(const std::string& node_id, const Leaving& leaving, TimePoint now);

  // Decisions.
  void Settle(TimePoint now);
  std::string WhoIsReadyToJoin() const;
  void SettleForming(TimePoint now);
  void HoldBelowMin(TimePoint now);
  void BeginRunning(TimePoint now);
  void Form(const FormationDecision& decision, TimePoint now);
  void Adopt(const std::string& reporter, const Assignment& held, TimePoint now);
  void FlushEarly(const std::string& node_id, TimePoint now);
  void Dissolve(const std::string& reason, bool gentle = false);
  void End(JobOutcome outcome, TimePoint now);
  std::string WhyHopeless(const WorkerFailure& failure) const;
  std::string WhyNoRestart(const WorkerFailure& failure);
  bool OnlyItsOwn(const std::string& node_id, const WorkerFailure& failure) const;
  void SendAway(const std::string& node_id, const WorkerFailure& failure);
  void Condemn(const std::string& node_id, const WorkerFailure& failure, std::string why, TimePoint now);
  void Hear(const std::string& node_id, const WorkerFailure& failure);
  bool AllHeard() const;
  void SettleVerdict(TimePoint now);
  void PaceBreaks(const std::string& what, TimePoint now);
  void Lose(const std::string& node_id, const std::string& why);
  void MemberGone(const std::string& node_id, const std::string& what);
  void Refuse(const std::string& node_id, const std::string& why);
  void ExpireNodes(TimePoint now);
  void ExtendLeases(Duration late, TimePoint now);
  void UpdateWaiting(TimePoint now);
  std::string WaitingText() const;
  void Remember(const Generation& generation);
  void RaiseRestarts(int count, int refunds);
  void AnswerStale(const std::string& node_id, const AgentEvent& event);
  void Answer(const std::vector<KeyValueStore::Answer>& answers);

  // One service of several (state_machine_authority.cc).
  bool Listed() const { return settings_.endpoints.size() > 1; }
  bool MayRegroup(std::string* why_not) const;
  std::vector<const Member*> Unaccounted() const;
  void SendElsewhere(const PeerService& peer);

  // Looking things up.
  /// Without `whole` the ready ones are only counted: enough for every decision but to form.
  FormationInput MakeFormationInput(bool whole) const;
  bool Adoptable(const std::string& reporter, const Offer& offer, const Assignment& held) const;
  bool IsMember(const std::string& node_id) const;  // of the generation that runs
  bool AllConfirmed() const;
  int used() const { return restart_count_ - refunded_; }
  Generation current() const { return current_ ? current_->generation : Generation{}; }
  std::string Name(const std::string& node_id) const;
  std::string ShortName(const std::string& node_id) const;
  /// Of several services any may have the job.
  TimePoint RecoveryEnds() const {
    const bool waits = !options_.host_begins || Listed();
    return options_.service_started + (waits ? options_.recovery_window : Duration::zero());
  }
  Duration Lease() const { return settings_.heartbeat_interval * settings_.heartbeats_missed; }
  void Touch(Node& node, TimePoint now) const;
  void SendTo(const std::string& node_id, ServiceEvent event) {
    effects_.push_back(Send{node_id, std::move(event)});
  }
  void Log(std::string text) { effects_.push_back(LogLine{std::move(text), false}); }
  void LogTold(std::string text) { effects_.push_back(LogLine{std::move(text), true}); }

  // Constant after construction.
  JobSettings settings_;
  Options options_;

  Phase phase_ = Phase::kForming;
  std::map<std::string, Node> nodes_;
  uint64_t arrivals_ = 0;
  uint64_t number_ = 0;                 // the highest generation number known
  bool formed_ = false;                 // a generation was formed or adopted
  int restart_count_ = 0;               // failures in all
  int refunded_ = 0;                    // of those, given back to the budget
  int early_failures_ = 0;              // in a row, of workers that had never been ready
  std::optional<int64_t> refund_mark_;  // steps before this one have earned what they could
  std::optional<Assignment> current_;   // the last generation; it runs while phase_ is kRunning
  std::vector<Generation> issued_;
  std::set<std::string> finished_;  // members whose workers have finished, also when the node is gone since
  bool result_safe_ = false;        // a member reported a final finish
  std::optional<Verdict> verdict_;
  bool progressed_ = false;              // a generation of this job has made a step
  bool stepped_ = false;                 // current_ has
  TimePoint began_;                      // when current_ began
  int breaks_ = 0;                       // in a row, see kMaxBreaks
  std::optional<TimePoint> pause_ends_;  // after a break
  std::optional<Generation> broken_;  // dissolved for broken collectives, the failure behind it not heard yet
  KeyValueStore store_;
  std::set<std::string> left_;      // members of current_ that said goodbye
  std::set<std::string> dead_;      // members of current_ that are gone for certain
  std::vector<PeerService> peers_;  // as seen last
  bool moved_ = false;              // another service has the job
  std::optional<TimePoint> last_call_ends_, join_ends_, form_at_, linger_ends_;
  std::optional<TimePoint> hold_ends_;  // while fewer than min_nodes are left, with a min_nodes_timeout
  std::optional<JobOutcome> outcome_;
  std::string reason_;       // of the last decision
  TimePoint next_news_;      // while there are many nodes
  bool news_waits_ = false;  // for next_news_
  std::optional<TimePoint> phase_since_;
  std::vector<Effect> effects_;  // of the step in progress; empty between steps
};

}  // namespace mtrun::rendezvous
