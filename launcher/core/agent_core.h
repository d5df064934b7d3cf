// The decisions of one node's agent, as a pure state machine: joining -> running -> stopping -> joining ...
// -> ended. Step takes an event and the time and returns effects in the order to perform them. No thread, no
// clock, no process.
//
// A node is cooperative if every live worker has said so in its hello (the replacement of a dead worker is
// presumed cooperative until its own hello). Cooperative workers outlive their generation: running ->
// regrouping -> running, with fresh processes for the dead ones. A signal drains the node: the workers are
// notified, and this node leaves the service only after they are out, so that no step is aborted.
//
// Invariants (checked before and after every Step): workers exist only from StartWorkers to CleanUp; there is
// at most one generation; the service receives at most one failure, one break and one finish per generation;
// nothing happens after Exit.
//
// If warm_up is set, a generation has a rank for each worker that was ready when this node made its offer (a
// member), in order of local rank. Fresh workers start without a rank; when they are ready the node offers
// more workers, and only then do the others pause briefly.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/drain.h"
#include "launcher/core/effect_list.h"
#include "launcher/core/generation_report.h"
#include "launcher/core/hang_watch.h"
#include "launcher/core/others.h"
#include "launcher/core/regroup_line.h"
#include "launcher/core/service_link.h"
#include "launcher/core/stop_ladder.h"
#include "launcher/core/wait_news.h"
#include "launcher/core/warm_pool.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

struct AgentConfig {
  rendezvous::Offer offer;  // offered each time; port and holds are filled in later
  std::string endpoint;     // for messages
  int max_restarts = 0;
  Duration shutdown_timeout = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::seconds(600);  // for the first connection to the service
  Duration fence_timeout = Duration::zero();          // length of a lease, for messages; zero: no leases
  // The workers are trainers: they start before this node joins a generation and report when they are ready.
  // If workers survive, fresh ones start beside them, and the survivors do not wait for the start.
  bool warm_up = false;
  // How long a cooperative worker may neither make progress nor wait for others before it is reported
  // (notice) or killed (timeout). Zero: never.
  Duration hang_notice = Duration::zero();
  Duration hang_timeout = Duration::zero();
  // Log a trainer regrouping as one line (for a terminal); its details are logged at debug level.
  bool brief = false;
  bool nodes_from_slurm = false;  // a wait for nodes names the way to do without them
  std::string zone = {};          // for addresses of peers, see link_zone.h
  bool operator==(const AgentConfig&) const = default;
};

class AgentCore {
 public:
  enum class Phase {
    kJoining,     // offer made, no workers
    kRunning,     // workers of `assignment_` run
    kFinished,    // workers are done on this node; the service decides when the job is
    kRegrouping,  // the workers outlive their generation, which is over; offer made
    kStopping,    // workers were asked to exit
    kStopped,     // workers are gone; the service decides what their failure means
    kEnded,
  };

  /// Margin after hang_timeout until a waiting collective counts as broken, because no worker is stalled.
  static constexpr Duration kStuckGrace = std::chrono::seconds(10);

  AgentCore(AgentConfig config, TimePoint now);

  Effects Step(const Event& event, TimePoint now);
  /// Latest time for the next Step(Tick).
  std::optional<TimePoint> NextDeadline() const;

  Phase phase() const { return phase_; }
  /// The running generation; nullopt if there is none.
  const std::optional<rendezvous::Assignment>& assignment() const { return assignment_; }
  /// Index of this node in `assignment().members`.
  size_t member() const { return member_; }
  /// Rank of the worker in the running generation; -1 if it has none.
  int RankOf(int local_rank) const {
    return assignment_ && local_rank < slots_.size() ? slots_[local_rank].rank : -1;
  }
  /// Returns whether ordinary programs run: they cannot be told to stop committing.
  bool workers_die_with_lease() const;
  /// Returns whether a new generation starts the program of this node again: not all its workers have said that
  /// they outlive one. While it has no workers, its last ones count.
  bool ordinary() const { return !config_.warm_up && !cooperative_; }
  /// Returns whether this node is in a generation, running or finished here, and not draining.
  bool takes_part() const {
    return (phase_ == Phase::kRunning || phase_ == Phase::kFinished) && !drain_.begun();
  }
  /// Returns whether a signal was received and the workers may still leave by themselves.
  bool draining() const { return drain_.begun() && !stop_.exit; }
  void CheckInvariants() const;
  std::string Describe() const;
  bool operator==(const AgentCore&) const = default;

 private:
  using Next = StopLadder::Next;

  void OnEvent(const Event& event);
  void OnConnected();
  void OnService(const rendezvous::ServiceEvent& event);
  void OnAssigned(const rendezvous::Assignment& assignment);
  void OnDissolved(const rendezvous::GenerationDissolved& event);
  void OnJobEnded(const rendezvous::JobOutcome& outcome);
  void OnExited(const WorkerExited& event);
  void OnStartupExit(const WorkerExited& event);
  void OnFailedWorker(const WorkerExited& event);
  void OnSaid(int local_rank, const channel::WorkerMessage& message);
  void OnProgress(int local_rank, int64_t step);
  void OnWaiting(int local_rank, const channel::Waiting& waiting);
  void OnSignal(int signal);
  void OnTick();
  /// Records that the worker finished something, or reported that it waits for others.
  void OnProgress(int local_rank);

  // Generations.
  void BeginWarmUp();
  void Enter(const rendezvous::Assignment& assignment, size_t member);
  void TellAssignment(int local_rank);
  void StartMissingWorkers();
  void Regroup(bool graceful);
  void MakeOffer(bool fresh);
  int WorkersToOffer() const;
  void FinishIfAllDone();

  // Ends.
  void LeaveAfterDrain(int signal);
  /// Stops the workers with `signal` (0: they are about to exit by themselves, or a stop is under way), and
  /// continues with `next`.
  void BeginStop(int signal, Next next);
  void GiveUp(const std::string& why);
  /// Notifies the service, once, that this node leaves.
  void Leave(const rendezvous::NodeLeft& why);
  /// Performs what follows from the state after each event.
  void Settle();
  void FinishStop();

  AgentConfig config_;

  Phase phase_ = Phase::kJoining;
  TimePoint now_;
  EffectList out_;
  std::optional<rendezvous::Assignment> assignment_;
  std::optional<rendezvous::Assignment> last_;  // previous generation, while regrouping
  bool ends_step_ = false;                      // the last step of last_ may still be completed
  size_t member_ = 0;                           // index of this node in assignment_ or last_
  RegroupLine regroup_;                         // log line about the last regrouping
  GenerationReport report_;                     // for the current (or last) generation
  rendezvous::Generation seen_;                 // the last generation assigned to this node
  rendezvous::Generation entered_;              // the last generation that this node entered
  uint64_t last_number_ = 0;                    // highest generation number entered here
  Others others_;
  int restart_count_ = 0;  // as last reported by the service
  WorkerSlots slots_;
  bool cooperative_ = false;  // all workers, or the last ones that this node had, have said so
  WarmPool pool_;
  HangWatch watch_;
  WaitNews wait_;     // why there is no generation
  std::string note_;  // shown in the job's status
  ServiceLink link_;
  Drain drain_;
  StopLadder stop_;
  bool left_ = false;  // the service was notified that this node leaves
};

}  // namespace mtrun::launcher
