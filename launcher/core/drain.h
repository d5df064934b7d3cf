// A stop that a signal or an operator (mtrun --drain, --stop) asks for: cooperative workers finish their step
// and leave, and the node after them. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

class Drain {
 public:
  /// The same signal again within this time is one signal: a terminal, `timeout` and schedulers send it
  /// several times over.
  static constexpr Duration kSignalEcho = std::chrono::milliseconds(500);
  // What why() begins with.
  static constexpr char kReceived[] = "received ", kAskedBy[] = "was asked to leave by ";

  enum class Heard {
    kFirst,
    kEcho,
    kKnown,  // the first signal of a node that was asked to leave, and does
    kAgain,
  };
  Heard Hear(int signal, TimePoint now);
  /// An operator or a file asks: as SIGTERM, which the caller has to feed it next. False where this node
  /// leaves already. `all_nodes`: the whole job stops, and no other node continues it.
  bool Ask(const std::string& by, bool all_nodes);
  /// The first one; 0 before any.
  int signal() const { return signal_; }
  /// 128 + signal: mtrun's exit status, unless its workers' own says more.
  int exit_code() const { return 128 + signal_; }
  std::string why() const;  // "received SIGTERM", "was asked to leave by anna@login1"

  /// The workers have until `deadline` to leave by themselves.
  void Begin(TimePoint deadline) { deadline_ = deadline; }
  bool begun() const { return deadline_.has_value(); }
  TimePoint deadline() const { return *deadline_; }
  /// All workers have left by themselves.
  void Complete() { complete_ = true; }
  bool complete() const { return complete_; }

  /// The worker's end aborts the step that the others wanted to finish.
  bool AbortsStep(const WorkerExited& exited, const WorkerSlot& slot) const;
  /// mtrun's exit status. 0 where all left well and for a scheduler this node has done its part: the other
  /// nodes go on with the job, or it was done. Workers that have saved the run may end with a status of their
  /// own, which is mtrun's then (--drain_exit_code of the trainers): by it a batch script knows what to do
  /// next.
  /// REQUIRES: complete.
  int ExitCode(const WorkerSlots& slots, bool others_go_on) const;

  std::string Describe() const;
  bool operator==(const Drain&) const = default;

 private:
  int signal_ = 0;
  std::optional<TimePoint> heard_;  // when the last one came that counts as the first or a known one
  int heard_signal_ = 0;            // that one
  std::string asked_by_ = {};       // "" for a signal
  bool signal_awaited_ = false;     // asked, and no signal has come since
  bool all_nodes_ = false;          // asked to stop the job
  std::optional<TimePoint> deadline_;
  bool complete_ = false;
};

}  // namespace mtrun::launcher
