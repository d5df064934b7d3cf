// A stop that was asked for by a signal: cooperative workers finish their step and leave, and the node after
// them. A value; the time is an argument.
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
  static constexpr Duration kSignalEcho = std::chrono::milliseconds(100);

  enum class Heard { kFirst, kEcho, kAgain };
  Heard Hear(int signal, TimePoint now);
  /// The first one; 0 before any.
  int signal() const { return signal_; }
  /// mtrun's exit status: 128 + signal.
  int exit_code() const { return 128 + signal_; }
  std::string why() const;  // "received SIGTERM"

  /// The workers have until `deadline` to leave by themselves.
  void Begin(TimePoint deadline) { deadline_ = deadline; }
  bool begun() const { return deadline_.has_value(); }
  TimePoint deadline() const { return *deadline_; }
  /// All workers have left by themselves.
  void Complete() { complete_ = true; }

  /// The worker's end aborts the step that the others wanted to finish.
  bool AbortsStep(const WorkerExited& exited, const WorkerSlot& slot) const;
  /// The other nodes continue: for a scheduler this one has done its part, and mtrun exits with 0.
  bool Succeeded(const WorkerSlots& slots) const { return complete_ && slots.AllMembersLeftWell(); }

  std::string Describe() const;
  bool operator==(const Drain&) const = default;

 private:
  int signal_ = 0;
  std::optional<TimePoint> heard_;
  std::optional<TimePoint> deadline_;
  bool complete_ = false;
};

}  // namespace mtrun::launcher
