// Passes the agent's messages from a worker's reader thread to its training thread: the newest assignment,
// its end, and drain requests. If a generation breaks, its group's waits end at once. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

class AgentLink {
 public:
  // ---- reader thread
  void Hear(const channel::AgentMessage& message);
  void Lose(const std::string& why);

  // ---- training thread
  /// Waits for a valid assignment that is newer than the entered one, and enters it. kDeadlineExceeded at
  /// `deadline`, if there is one; kUnavailable if the agent is gone; kCancelled if it sent a stop.
  absl::StatusOr<channel::Assignment> Next(std::optional<TimePoint> deadline);
  /// Returns true if Next would return an assignment at once.
  bool HasNext() const;
  /// Waits for the end of the entered generation. OK: the agent sent a stop, or is gone; kUnavailable: the
  /// generation is over, gracefully or not, and another one follows; kDeadlineExceeded: neither happened.
  absl::Status WaitForEnd(TimePoint deadline);
  /// Returns true if the entered generation is over: the agent ended it (not gracefully), replaced it, sent a
  /// stop, or is gone.
  bool IsOver() const;
  /// Sets the function that ends the waits of the entered generation; null: there are none. It is called with
  /// the reason, on the reader thread, or at once if the generation is over already. After this returns, the
  /// previous function is not running and is never called again.
  void OnBreak(std::function<void(const std::string&)> abort);

  // ---- any thread
  /// Returns true if the entered generation ends gracefully: its members leave it together after a step.
  bool wants_regroup() const { return graceful_.load(std::memory_order_relaxed); }
  bool drains() const { return drains_.load(std::memory_order_relaxed); }
  std::string drain_wish() const;
  /// Returns when the agent first asked to drain; nothing if it has not.
  std::optional<TimePoint> drains_since() const;
  /// Returns true if the agent reported that the job is complete.
  bool work_is_done() const { return complete_.load(std::memory_order_relaxed); }
  /// Returns true if the agent reported that the job continues on other nodes, without this drained one.
  bool others_continue() const { return others_continue_.load(std::memory_order_relaxed); }
  /// The time until which a user watches, so that step times are reported.
  TimePoint watched_until() const { return watched_until_.load(std::memory_order_relaxed); }

 private:
  void Break(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNextLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOverLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> drains_{false}, graceful_{false}, complete_{false},
      others_continue_{false};  // read once a step
  std::atomic<TimePoint> watched_until_{TimePoint::min()};
  mutable Mutex mutex_;
  Condition changed_;
  std::optional<channel::Assignment> newest_ ABSL_GUARDED_BY(mutex_);
  std::optional<channel::Generation> entered_ ABSL_GUARDED_BY(mutex_);
  std::optional<channel::Generation> ended_ ABSL_GUARDED_BY(mutex_);  // the last generation that ended
  std::string why_ended_ ABSL_GUARDED_BY(mutex_);
  std::string lost_ ABSL_GUARDED_BY(mutex_);
  std::string stop_ ABSL_GUARDED_BY(mutex_);
  std::string drain_ ABSL_GUARDED_BY(mutex_);
  std::optional<TimePoint> drains_since_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> abort_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mtrun::trainers
