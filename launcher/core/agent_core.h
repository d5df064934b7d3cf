// What one node's agent decides: joining -> running -> stopping -> joining ... -> ended, as a pure state
// machine. Events and the time go in, effects come out in the order in which they are to be performed. No
// thread, no clock, no process.
//
// A node is cooperative while every worker that is alive has said so in its hello (one that has just taken a
// dead one's place is believed until its own hello). Its workers outlive their generation: running ->
// regrouping -> running, with fresh processes for the dead. A signal drains it: the workers are told, and the
// service hears that this node leaves only when they are out, so that no step is aborted.
//
// Invariants (checked on the way in and out of every Step): workers exist only from StartWorkers to CleanUp;
// there is at most one generation; the service hears of at most one failure, one break and one finish per
// generation; nothing happens after Exit.
//
// With warm_up a generation has a rank for each worker that was ready when this node offered itself (a
// member), in order of local rank. Fresh workers start before they have a rank; when they are ready the node
// offers more workers, and only then do the others stop for a moment.
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
#include "launcher/core/warm_pool.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

struct AgentConfig {
  rendezvous::Offer offer;  // what this node offers each time; port and holds are filled in later
  std::string endpoint;     // for messages
  int max_restarts = 0;
  Duration shutdown_timeout = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::seconds(600);  // until the service is reached for the first time
  Duration fence_timeout = Duration::zero();          // length of a lease, for messages; zero: there is none
  // The workers are trainers: they start before this node takes part and tell when they are ready, and so do
  // fresh ones beside survivors, which wait for nobody's start.
  bool warm_up = false;
  // A cooperative worker that neither makes progress nor waits for others for so long is reported; killed.
  // Zero: never.
  Duration hang_notice = Duration::zero();
  Duration hang_timeout = Duration::zero();
  // On a terminal a regrouping of trainers is one line, and its details are for debugging.
  bool brief = false;
  bool operator==(const AgentConfig&) const = default;
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

  /// A collective waits for so much longer than hang_timeout: no worker is left to be killed, it broke by
  /// itself.
  static constexpr Duration kStuckGrace = std::chrono::seconds(10);

  AgentCore(AgentConfig config, TimePoint now);

  Effects Step(const Event& event, TimePoint now);
  /// When Step(Tick) is wanted at the latest.
  std::optional<TimePoint> NextDeadline() const;

  Phase phase() const { return phase_; }
  /// Nothing while no generation runs here.
  const std::optional<rendezvous::Assignment>& assignment() const { return assignment_; }
  /// This node's place in `assignment().members`.
  size_t member() const { return member_; }
  /// Of the worker of that local rank in the generation that runs, -1: none.
  int RankOf(int local_rank) const {
    return assignment_ && local_rank < slots_.size() ? slots_[local_rank].rank : -1;
  }
  /// Ordinary ones run: they commit what they like.
  bool workers_die_with_lease() const;
  /// A generation runs here, or its part here is done; whoever is about to leave takes part no more.
  bool takes_part() const {
    return (phase_ == Phase::kRunning || phase_ == Phase::kFinished) && !drain_.begun();
  }
  /// A signal was received, and the workers may still leave by themselves.
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
  /// The worker finished something, or said that it waits for others.
  void Moved(int local_rank);

  // Generations.
  void BeginWarmUp();
  void Enter(const rendezvous::Assignment& assignment, size_t member);
  void TellAssignment(int local_rank);
  void StartMissingWorkers();
  void Regroup(bool graceful);
  void MakeOffer(bool fresh);
  int WorkersToOffer() const;
  void ReportBroken(int local_rank, const std::string& why);
  void FinishIfAllDone();

  // Ends.
  void LeaveAfterDrain(int signal);
  /// Ends the workers, politely with `signal` (0: they are about to end by themselves), and continues with
  /// `next`.
  void BeginStop(int signal, Next next);
  void GiveUp(const std::string& why);
  /// Tells the service, once, that this node leaves.
  void Leave(const std::string& why);
  /// After each event: what follows from the state.
  void Settle();
  void FinishStop();

  AgentConfig config_;

  Phase phase_ = Phase::kJoining;
  TimePoint now_;
  EffectList out_;
  std::optional<rendezvous::Assignment> assignment_;
  std::optional<rendezvous::Assignment> last_;  // while regrouping: the one that is over
  bool ends_step_ = false;                      // its workers may still end its last step
  size_t member_ = 0;                           // this node's place in either
  RegroupLine regroup_;                         // what people are told of the last one
  GenerationReport report_;                     // of this (the last) generation
  rendezvous::Generation entered_;              // the last one here
  uint64_t last_number_ = 0;                    // of the last generation here
  Others others_;
  int restart_count_ = 0;  // that this node has heard of
  WorkerSlots slots_;
  WarmPool pool_;
  HangWatch watch_;
  std::string note_;  // what people are shown
  ServiceLink link_;
  Drain drain_;
  StopLadder stop_;
  bool left_ = false;  // the service has heard that this node leaves
};

}  // namespace mtrun::launcher
