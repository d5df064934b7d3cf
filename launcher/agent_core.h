// What one node's agent decides: joining -> running -> stopping -> joining ... -> ended, as a pure state
// machine. Events and the time go in, effects come out in the order in which they are to be performed. No
// thread, no clock, no process.
//
// Invariants (checked on the way in and out of every Step): workers exist only from StartWorkers to CleanUp;
// there is at most one generation; the service hears of at most one failure and one finish per generation;
// nothing happens after Exit.
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
};

class AgentCore {
 public:
  enum class Phase {
    kJoining,   // offer made, no workers
    kRunning,   // workers of `assignment_` run
    kFinished,  // they are done here; the service says when all are
    kStopping,  // they have been told to go
    kStopped,   // they are gone; the service decides what their failure means
    kEnded,
  };

  /// The same signal again within this time is one signal: a terminal, `timeout` and schedulers send it
  /// several times over.
  static constexpr Duration kSignalEcho = std::chrono::milliseconds(100);
  /// How long after SIGKILL a worker may still be there (an uninterruptible state of the kernel) before it is
  /// given up.
  static constexpr Duration kKillPatience = std::chrono::seconds(5);

  AgentCore(AgentConfig config, TimePoint now);

  Effects Step(const Event& event, TimePoint now);
  /// When Step(Tick) is wanted at the latest.
  std::optional<TimePoint> NextDeadline() const;

  Phase phase() const { return phase_; }
  const std::optional<rendezvous::Assignment>& assignment() const { return assignment_; }
  void CheckInvariants() const;
  std::string Describe() const;

 private:
  struct Worker {
    enum class Life { kRunning, kExited, kGone };
    Life life = Life::kRunning;
    bool said_hello = false;
    bool cooperative = false;
    bool said_done = false;  // and is cooperative: its result is safe, its exit does not matter
    bool exited_well = false;
    bool done() const { return said_done || exited_well; }
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
  void OnService(const rendezvous::StoreReply&) {}  // the shell forwards these to the worker that asked

  void Start(const rendezvous::Assignment& assignment, size_t member);
  void ReportFailure(const WorkerExited& event);
  void FinishIfAllDone();
  rendezvous::WorkersFinished Finished() const;
  /// Ends the workers, politely with `signal` (0: they are about to end by themselves), and goes on with
  /// `next`.
  void BeginStop(int signal, Next next);
  void GiveUp(std::string why);
  void Settle();
  void FinishStop();
  void MakeOffer(bool fresh);
  void TellWorkers(const channel::AgentMessage& message);
  void Emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void Log(log::Level level, std::string text) { Emit(WriteLog{level, std::move(text)}); }
  bool AllAtLeast(Worker::Life life) const;

  const AgentConfig config_;

  Phase phase_ = Phase::kJoining;
  TimePoint now_;
  Effects effects_;
  std::optional<rendezvous::Assignment> assignment_;
  size_t member_ = 0;
  std::vector<Worker> workers_;
  std::optional<rendezvous::WorkerFailure> failure_;  // of this generation, reported
  Next next_ = Next::kVerdict;
  std::optional<Exit> exit_;                // decided, performed when the workers are gone
  std::optional<TimePoint> stop_deadline_;  // SIGKILL then; after that, giving up
  std::optional<TimePoint> join_deadline_;  // until the first connection
  std::optional<TimePoint> first_signal_;
  int last_signal_ = 0;
  bool killed_ = false;
};

}  // namespace mtrun::launcher
