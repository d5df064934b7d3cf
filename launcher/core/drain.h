// A stop on request of a signal or an operator (mtrun --drain, --stop): cooperative workers finish their step
// and leave, then the node leaves. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

class Drain {
 public:
  /// A repeated signal within this time is ignored: a terminal, `timeout` and schedulers send several.
  static constexpr Duration kSignalEcho = std::chrono::milliseconds(500);

  enum class Heard {
    kFirst,
    kEcho,
    kKnown,  // the first signal of a node that is already leaving on request
    kAgain,
  };
  Heard Hear(int signal, TimePoint now);
  /// Records a request of an operator or a file; the caller must then feed SIGTERM. Returns false if this
  /// node is leaving already. `all_nodes`: the whole job stops, and no other node continues it.
  bool Ask(const rendezvous::NodeLeft& why, bool all_nodes);
  /// The first signal; 0 before any.
  int signal() const { return signal_; }
  /// 128 + signal: mtrun's exit status unless the workers' own status is more specific.
  int exit_code() const { return 128 + signal_; }
  /// Returns why the node of this host leaves.
  rendezvous::NodeLeft cause(const std::string& host = "") const;
  /// Returns "received SIGTERM", "was asked to leave by anna@login1".
  std::string why() const { return rendezvous::Describe(cause()); }

  /// Gives the workers until `deadline` to leave by themselves.
  void Begin(TimePoint deadline) { deadline_ = deadline; }
  bool begun() const { return deadline_.has_value(); }
  TimePoint deadline() const { return *deadline_; }
  /// Records that all workers have left by themselves.
  void Complete() { complete_ = true; }
  bool complete() const { return complete_; }

  /// Returns whether the worker's exit aborts the step that the others wanted to finish.
  bool AbortsStep(const WorkerExited& exited, const WorkerSlot& slot) const;
  /// Returns mtrun's exit status. It is 0 if all workers left cleanly and this node has done its part: the
  /// other nodes continue the job, or it is done. Workers that have saved the run may exit with a status of
  /// their own (--drain_exit_code of the trainers). mtrun then exits with it, so that a batch script knows
  /// what to do next.
  /// REQUIRES: complete.
  int ExitCode(const WorkerSlots& slots, bool others_go_on) const;

  std::string Describe() const;
  bool operator==(const Drain&) const = default;

 private:
  int signal_ = 0;
  std::optional<TimePoint> heard_;             // when the last kFirst or kKnown signal was received
  int heard_signal_ = 0;                       // that signal
  std::optional<rendezvous::NodeLeft> asked_;  // empty for a signal
  bool signal_awaited_ = false;                // asked to leave, and no signal received since
  bool all_nodes_ = false;                     // asked to stop the whole job
  std::optional<TimePoint> deadline_;
  bool complete_ = false;
};

}  // namespace mtrun::launcher
