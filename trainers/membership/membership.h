// The workers that this one trains with, as the training loop sees them. Memberships follow one another while
// the process lives: see Regroup. Training thread only, unless a method says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/worker_channel.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/membership/assignment.h"

namespace mtrun::trainers {

class Membership {
 public:
  virtual ~Membership() = default;

  /// Returns this worker's assignment in the running generation.
  virtual const Assignment& assignment() const = 0;
  /// Returns the rendezvous service's number of the running generation, 1 if there is no service.
  virtual uint64_t generation() const = 0;
  /// Returns the process group; null if the world is one worker.
  virtual const collectives::ProcessGroup& group() const = 0;
  /// Return when the running generation's assignment arrived and when its group was connected.
  virtual TimePoint assigned_at() const = 0;
  virtual TimePoint connected_at() const = 0;

  /// Returns true if another generation follows one that ended.
  virtual bool elastic() const = 0;
  /// Waits for the next generation and connects to its members. Call it after a collective failed with
  /// kUnavailable, or at a boundary that all members agreed on. The old group is then gone, and any number of
  /// generations may have passed. Errors: `why` itself if no other assignment comes; kUnavailable if the
  /// agent is gone; kCancelled if it sent a stop, or if this worker drains and gets no assignment within a
  /// second.
  virtual absl::Status Regroup(const absl::Status& why) = 0;
  /// Returns true if a new generation is wanted or formed and no member of the running one is lost: all of
  /// them leave it after the same step. Any thread.
  virtual bool wants_regroup() const = 0;
  /// Returns true if the running generation is known to be over: its collectives will fail. Any thread.
  virtual bool generation_is_over() const = 0;
  /// Returns true if no rendezvous service has answered this node for so long that another generation may
  /// have formed without it. Nothing may be committed until one answers or this membership ends. Any thread.
  virtual bool lease_is_over() const = 0;
  /// Returns true if the previous lease was over when this membership began: others may have formed one
  /// between.
  virtual bool lease_lapsed() const { return false; }
  /// Like lease_is_over, after this worker's membership and before the next one: the others do not continue
  /// without it while the service that answers its node has the job and knows no other generation. Any
  /// thread.
  virtual bool outside_lease_is_over() const = 0;
  /// Returns true if a signal or the agent asked this worker to finish its step and leave; why. Any thread.
  virtual bool wants_drain() const = 0;
  virtual std::string drain_wish() const = 0;
  /// Returns when that was first requested, nothing if it was not. Any thread.
  virtual std::optional<TimePoint> told_to_go_at() const = 0;
  /// Returns true if the job has succeeded: this worker's state is older than its result. Any thread.
  virtual bool work_is_done() const = 0;
  /// Returns true if the job continues on other nodes, without this drained worker: its state is older than
  /// theirs, and no service renews its lease. Any thread.
  virtual bool others_continue() const = 0;
  /// Returns true if a generation with a rank for this worker has formed; Regroup enters it at once. Any
  /// thread.
  virtual bool next_is_here() const = 0;

  /// Reports progress. May be called at any rate; the rate of messages is limited.
  virtual void ReportProgress(int64_t epoch, int64_t step, int64_t samples) = 0;
  /// Reports this worker's wait in the finished step, and its loss; limited, and only while a user watches.
  virtual void ReportTimes(const channel::StepTimes& times) = 0;
  virtual void ReportLeaving(std::string_view why) = 0;
  /// Reports that the run is complete and waits until the job is over, because a membership that begins at
  /// this moment needs this worker. kUnavailable: one begins; Regroup and report again.
  virtual absl::Status ReportDone(int64_t step) = 0;
};

/// Returns the status that ends a drained worker's wait or evaluation: kUnavailable if a launcher decides
/// what follows, otherwise kCancelled.
inline absl::Status EndForLeaving(const Membership& membership, const std::string& why) {
  return membership.elastic() ? absl::UnavailableError(why) : absl::CancelledError(why);
}

}  // namespace mtrun::trainers
