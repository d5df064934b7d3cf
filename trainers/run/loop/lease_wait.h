// Holds the run before a commit if the lease of this node has expired, until a service answers or the
// membership ends. Training thread only, unless a method says otherwise.
#pragma once

#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/membership/lease_hold.h"
#include "trainers/membership/membership.h"
#include "trainers/run/records/progress.h"

namespace mtrun::trainers {

class LeaseWait {
 public:
  /// The references must outlive this. `grace`: from a polite signal to SIGKILL; at most half is spent here.
  LeaseWait(const Membership& membership, ProgressLine& progress, Duration grace)
      : membership_(membership), progress_(progress), hold_(grace / 2) {}

  /// Waits until `what` ("step 7") may be committed and returns OK. If it must be aborted, returns the
  /// membership's error, or kUnavailable if this worker is to leave and no service answers.
  absl::Status Await(std::string_view what);
  /// Does the same for a worker that has no membership any more and is to leave. A service's answer since the
  /// end of its generation counts like a renewed lease, if the service knows of no later generation. Returns
  /// kUnavailable also if the job's work is done or continues on other nodes. Returns kAborted if a
  /// generation with this worker has formed and its members wait for it: it has a membership again.
  absl::Status AwaitOutside(std::string_view what);
  /// Returns immediately; kUnavailable if the lease has expired. Any thread.
  absl::Status MayCommit() const;

 private:
  bool LeaseIsOver() const;
  LeaseHold::Look LookAround() const;
  void Say(std::string_view what, const LeaseHold::Decision& decision);

  const Membership& membership_;
  ProgressLine& progress_;
  LeaseHold hold_;
  std::atomic<bool> outside_ = false;  // set by AwaitOutside
};

}  // namespace mtrun::trainers
