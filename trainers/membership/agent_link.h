// What a worker's reader thread hears from the agent and its training thread acts upon: the newest
// assignment, whether it still holds, and whether to drain. Thread-safe. What breaks a generation ends the
// waits of its group at once.
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
  /// Waits for an assignment newer than the entered one that still holds, and enters it. Gives up at
  /// `deadline` with kDeadlineExceeded (nothing: waits on). kUnavailable: the agent is gone; kCancelled: it
  /// says stop.
  absl::StatusOr<channel::Assignment> Next(std::optional<TimePoint> deadline);
  /// Next has an assignment to return at once.
  bool HasNext() const;
  /// Waits for what becomes of the entered generation. OK: the agent says stop, or is gone; kUnavailable: it
  /// is over, gracefully or not, and another one follows; kDeadlineExceeded: nothing yet.
  absl::Status WaitForEnd(TimePoint deadline);
  /// True when the agent has said that the entered generation is over, or has given a newer one; not when it
  /// ends gracefully.
  bool IsOver() const;
  /// `abort` ends the waits of the entered generation; it is called with the reason, on the reader thread or
  /// at once where the generation is over already. Null: there is nothing to end. When this returns, the
  /// previous one is not running and never will.
  void OnBreak(std::function<void(const std::string&)> abort);

  // ---- any thread
  /// The entered generation ends gracefully: its members are to leave it together, after a step.
  bool wants_regroup() const { return graceful_.load(std::memory_order_relaxed); }
  bool drains() const { return drains_.load(std::memory_order_relaxed); }
  std::string drain_wish() const;
  /// When the agent asked first, nothing while it has not.
  std::optional<TimePoint> drains_since() const;
  /// The agent has said that the job is complete.
  bool work_is_done() const { return complete_.load(std::memory_order_relaxed); }
  /// The agent has said that the job continues on other nodes, without this one, which was told to go.
  bool others_continue() const { return others_continue_.load(std::memory_order_relaxed); }
  /// Somebody watches until then: where the time of steps goes is to be told.
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
  std::optional<channel::Generation> ended_ ABSL_GUARDED_BY(mutex_);  // the last one
  std::string why_ended_ ABSL_GUARDED_BY(mutex_);
  std::string lost_ ABSL_GUARDED_BY(mutex_);
  std::string stop_ ABSL_GUARDED_BY(mutex_);
  std::string drain_ ABSL_GUARDED_BY(mutex_);
  std::optional<TimePoint> drains_since_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> abort_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mtrun::trainers
