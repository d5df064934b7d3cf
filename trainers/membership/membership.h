// Whom this worker trains with, as the training loop sees it. Memberships follow one another while the
// process lives: see Regroup. Training thread only, unless a method says otherwise.
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

  /// Of the running generation.
  virtual const Assignment& assignment() const = 0;
  /// The rendezvous service's number of the running generation, 1 without one.
  virtual uint64_t generation() const = 0;
  /// Null when the world is one worker.
  virtual const collectives::ProcessGroup& group() const = 0;
  /// When the running generation's assignment came, and when its group was connected.
  virtual TimePoint assigned_at() const = 0;
  virtual TimePoint connected_at() const = 0;

  /// True where another generation follows one that ended.
  virtual bool elastic() const = 0;
  /// After a collective failed with kUnavailable, or at a boundary that all members agreed on: waits for the
  /// next generation and connects to its members. The old group is gone then. Any number of generations may
  /// pass meanwhile. Errors: `why` itself where no other assignment comes; kUnavailable when the agent went
  /// away, kCancelled when it says stop, or drain and no assignment comes within a second.
  virtual absl::Status Regroup(const absl::Status& why) = 0;
  /// A new generation is wanted or here, nobody of the running one is lost: all of them leave it after the
  /// same step. Any thread.
  virtual bool wants_regroup() const = 0;
  /// The running generation is known to be over: collectives of it fail or are about to. Any thread.
  virtual bool generation_is_over() const = 0;
  /// No rendezvous service has answered this node for so long that another generation may have formed without
  /// it: nothing may be committed until one answers or this membership ends. Any thread.
  virtual bool lease_is_over() const = 0;
  /// Whether the lease of the membership before was over when this one began: others may have formed one
  /// between.
  virtual bool lease_lapsed() const { return false; }
  /// The same of a worker whose membership is over and that waits for the next one: nobody goes on without it
  /// while the service that answers its node has the job and knows of no other generation. Any thread.
  virtual bool outside_lease_is_over() const = 0;
  /// A signal or the agent wants this worker to finish its step and go; why. Any thread.
  virtual bool wants_drain() const = 0;
  virtual std::string drain_wish() const = 0;
  /// When it was told so first, nothing while it was not. Any thread.
  virtual std::optional<TimePoint> told_to_go_at() const = 0;
  /// The job has ended with success: what this worker still holds is older than its result. Any thread.
  virtual bool work_is_done() const = 0;
  /// The job continues on other nodes, without this worker, which was told to go: what it holds is older
  /// than their state, and no service renews its lease. Any thread.
  virtual bool others_continue() const = 0;
  /// A generation in which this worker has a rank has formed; Regroup enters it at once. Any thread.
  virtual bool next_is_here() const = 0;

  /// May be called as often as one likes: it is passed on now and then.
  virtual void ReportProgress(int64_t epoch, int64_t step, int64_t samples) = 0;
  /// Of the step that is finished: how long this worker waited, and its loss. Likewise, while somebody
  /// watches.
  virtual void ReportTimes(const channel::StepTimes& times) = 0;
  virtual void ReportLeaving(std::string_view why) = 0;
  /// The run is complete. Stays until the job is over: a membership that begins at this moment counts on this
  /// worker and cannot begin without it. kUnavailable: so it is; Regroup and report again.
  virtual absl::Status ReportDone(int64_t step) = 0;
};

/// What a wait or an evaluation of a worker that is to go ends with: kUnavailable where a launcher is there
/// to say what follows, else kCancelled.
inline absl::Status EndForLeaving(const Membership& membership, const std::string& why) {
  return membership.elastic() ? absl::UnavailableError(why) : absl::CancelledError(why);
}

}  // namespace mtrun::trainers
