// What one node's agent decides: joining -> running -> stopping -> joining ... -> ended, as a pure state
// machine. Events and the time go in, effects come out in the order in which they are to be performed. No
// thread, no clock, no process.
//
// A node is cooperative while every worker that is alive has said so in its hello (one that has just taken a
// dead one's place is believed until its own hello). Its workers outlive their generation: running ->
// regrouping -> running, with fresh processes for the dead. A signal drains it: the workers are told, and the
// service hears that this node leaves only when they are out, so that nobody's step is torn.
//
// Invariants (checked on the way in and out of every Step): workers exist only from StartWorkers to CleanUp;
// there is at most one generation; the service hears of at most one failure, one break and one finish per
// generation; nothing happens after Exit.
//
// With warm_up this node's workers are slots: a generation has a rank for each slot that was ready when this
// node offered itself (a member), in order of local rank. Fresh workers begin ahead of their turn; when they
// are ready the node offers more workers, and only then do the others stop for a moment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/agent_events.h"

namespace mtrun::launcher {

struct AgentConfig {
  rendezvous::Offer offer;  // what this node offers each time; port and holds are filled in later
  std::string endpoint;     // for messages
  int max_restarts = 0;
  Duration shutdown_timeout = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::seconds(600);  // until the service is reached for the first time
  Duration fence_timeout =
      Duration::zero();  // without a service for so long, workers are stopped; zero: never
  // The workers are trainers: they begin before this node takes part and tell when they are ready, and so do
  // fresh ones beside survivors, which wait for nobody's start.
  bool warm_up = false;
  // A cooperative worker that neither moves on nor waits for others for so long is named; killed. Zero:
  // never.
  Duration hang_notice = Duration::zero();
  Duration hang_timeout = Duration::zero();
};

class AgentCore {
 public:
  enum class Phase {
    kJoining,     // offer made, no workers
    kRunning,     // workers of `assignment_` run
    kFinished,    // they are done here; the service says when all are
    kRegrouping,  // their generation is over, they live on; offer made
    kStopping,    // they have been told to go
    kStopped,     // they are gone; the service decides what their failure means
    kEnded,
  };

  /// The same signal again within this time is one signal: a terminal, `timeout` and schedulers send it
  /// several times over.
  static constexpr Duration kSignalEcho = std::chrono::milliseconds(100);
  /// How long after SIGKILL a worker may still be there (an uninterruptible state of the kernel) before it is
  /// given up.
  static constexpr Duration kKillPatience = std::chrono::seconds(5);

  /// How often the service hears of rank 0's steps.
  static constexpr int64_t kStepsPerReport = 100;
  /// So many workers in a row may die in one slot before they could take part.
  static constexpr int kMaxEarlyDeaths = 3;
  /// A collective waits for so much longer than hang_timeout: nobody is left to be killed, it broke by
  /// itself.
  static constexpr Duration kStuckGrace = std::chrono::seconds(10);

  AgentCore(AgentConfig config, TimePoint now);

  Effects Step(const Event& event, TimePoint now);
  /// When Step(Tick) is wanted at the latest.
  std::optional<TimePoint> NextDeadline() const;

  Phase phase() const { return phase_; }
  /// Nothing while no generation runs here.
  const std::optional<rendezvous::Assignment>& assignment() const { return assignment_; }
  void CheckInvariants() const;
  std::string Describe() const;

 private:
  struct Worker {
    enum class Life { kRunning, kExited, kGone };
    Life life = Life::kRunning;
    bool said_hello = false;
    bool cooperative = false;
    bool presumed = false;  // takes the place of a cooperative one and has not said hello yet
    bool due = false;       // a fresh process is wanted here once nothing of the old one is left
    int rank = -1;          // in assignment_, or in last_; -1: it takes no part
    bool warm = false;      // has prepared everything, before its first assignment
    bool given_up = false;  // no other process is tried here
    bool said_ready = false;
    bool said_done = false;  // and is cooperative: its result is safe, its exit does not matter
    bool said_leaving = false;
    bool exited_well = false;
    bool exited_with_0 = false;
    TimePoint moved = {};  // when it last finished something, or said that it waits for others
    int64_t steps = 0;     // finished, as far as it has told
    bool named = false;
    std::string standstill = {};  // with named: for people
    bool hung = false;            // and killed for it
    bool member() const { return rank >= 0; }
    bool done() const { return said_done || exited_well; }
    bool out() const { return life != Life::kRunning || said_leaving || said_done; }
    bool regroups() const { return said_hello ? cooperative : presumed; }
  };
  enum class Next { kVerdict, kRejoin, kExit };

  void On(const rendezvous::ServiceEvent& event);
  void On(const SessionConnected&);
  void On(const SessionDisconnected& event);
  void On(const SessionFailed& event);
  void On(const WorkerExited& event);
  void On(const WorkerGone& event);
  void On(const WorkerSaid& event);
  void On(const SignalReceived& event);
  void On(const Tick&);

  void OnService(const rendezvous::Assigned& event);
  void OnService(const rendezvous::GenerationDissolved& event);
  void OnService(const rendezvous::JobEnded& event);
  void OnService(const rendezvous::Refused& event);
  void OnService(const rendezvous::Waiting& event);
  void OnService(const rendezvous::StoreReply&) {}     // the shell forwards these to the worker that asked
  void OnService(const rendezvous::BudgetChanged&) {}  // its outbox remembers it
  void OnService(const rendezvous::Elsewhere&) {}      // the session follows it by itself

  void OnWorker(int local_rank, const channel::Hello& hello);
  void OnWorker(int local_rank, const channel::Leaving& leaving);
  void OnWorker(int local_rank, const channel::Done& done);
  void OnWorker(int local_rank, const channel::Waiting& waiting);
  void OnWorker(int local_rank, const channel::Broken& broken);
  void OnWorker(int local_rank, const channel::Ready& ready);
  void OnWorker(int local_rank, const channel::Progress& progress);
  template <typename Other>
  void OnWorker(int, const Other&) {}
  void OnFailedWorker(const WorkerExited& event);
  void OnExitWhileDraining(const WorkerExited& event);
  void OnSecondSignal(int signal);
  void Fence();

  // Ahead of a generation (agent_core_warm_up.cc).
  void BeginWarmUp();
  void ChooseMembers(size_t count);
  void StartFreshWorkers();
  rendezvous::Assignment MadeUpAssignment() const;
  int WorkersToOffer() const;
  void OfferWhatIsReady();
  void OnExitAheadOfItsTurn(const WorkerExited& event);
  void GiveUpOnStart(const rendezvous::WorkerFailure& failure);

  // Workers that stand still (agent_core_watch.cc).
  bool IsWatched(const Worker& worker) const;
  void Moved(int local_rank);
  std::optional<TimePoint> NextLook() const;
  void LookForHangs();
  /// Behind each event: what people see of this node's workers that stand still.
  void ShowStandstills();
  std::string WhoStandsStill(int local_rank) const;

  // Generations.
  void Enter(const rendezvous::Assignment& assignment, size_t member);
  void TellAssignment(int local_rank);
  void StartDueWorkers();
  void GiveUpOnLeftovers();
  void Regroup();
  rendezvous::WorkerFailure MakeFailure(const WorkerExited& event) const;
  void ReportFailure(const WorkerExited& event);
  void ReportBroken(int local_rank, const std::string& why);
  void FinishIfAllDone();
  rendezvous::WorkersFinished Finished() const;

  // Ends.
  void BeginDrain(int signal, const std::string& why);
  void SettleDrain();
  void LeaveAfterDrain(int signal);
  /// Ends the workers, politely with `signal` (0: they are about to end by themselves), and goes on with
  /// `next`.
  void BeginStop(int signal, Next next);
  void Kill();
  void GiveUp(std::string why);
  void Settle();
  void FinishStop();

  void SayGoodbye(const std::string& why);
  void MakeOffer(bool fresh);
  void TellWorkers(const channel::AgentMessage& message);
  void Emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void Log(log::Level level, std::string text) { Emit(WriteLog{level, std::move(text)}); }
  bool AllAtLeast(Worker::Life life) const;
  bool AnyOut() const;
  bool Draining() const { return drain_deadline_ && !exit_; }
  /// Somebody is alive here, and everybody who is outlives a generation.
  bool Cooperative() const;
  Worker* Find(int local_rank);
  std::string Leaves() const;

  const AgentConfig config_;

  Phase phase_ = Phase::kJoining;
  TimePoint now_;
  Effects effects_;
  std::optional<rendezvous::Assignment> assignment_;
  std::optional<rendezvous::Assignment> last_;  // while regrouping: the one that is over
  size_t member_ = 0;                           // this node's place in either
  std::vector<Worker> workers_;
  std::optional<rendezvous::WorkerFailure> failure_;  // of this (the last) generation, reported
  bool break_reported_ = false;
  std::string note_;                      // what people are shown
  std::optional<int64_t> reported_step_;  // of this generation
  std::vector<int> early_deaths_;         // by slot, since a worker of it was last ready
  int offered_ = 0;                       // workers, by the last offer
  int restart_count_ = 0;                 // that this node has heard of
  uint64_t last_number_ = 0;              // of the last generation here
  Next next_ = Next::kVerdict;
  std::optional<Exit> exit_;                 // decided, performed when the workers are gone
  std::optional<TimePoint> stop_deadline_;   // SIGKILL then; after that, giving up
  std::optional<TimePoint> join_deadline_;   // until the first connection
  std::optional<TimePoint> start_deadline_;  // what dead workers left must be gone, fresh ones are due
  std::optional<TimePoint> drain_deadline_;  // workers that have not left by then are killed
  std::optional<TimePoint> fence_deadline_;  // there is no service; workers are stopped then
  std::optional<TimePoint> first_signal_;
  int last_signal_ = 0;
  bool connected_ = false;  // with the service, as far as is known
  bool drained_ = false;    // the exit follows a drain: its code is decided by how the workers end
  bool killed_ = false;
  bool left_ = false;  // the service has heard that this node goes
};

}  // namespace mtrun::launcher
