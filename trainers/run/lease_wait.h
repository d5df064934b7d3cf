// Patience without a rendezvous service: holds the run where something would be committed while the lease of
// this node is over, until a service answers or the membership ends. Training thread only, unless a method
// says otherwise.
#pragma once

#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/membership/lease_hold.h"
#include "trainers/membership/membership.h"
#include "trainers/run/progress.h"

namespace mtrun::trainers {

class LeaseWait {
 public:
  /// The references must outlive this. `grace`: from a polite signal to SIGKILL; half of it is spent here.
  LeaseWait(const Membership& membership, ProgressLine& progress, Duration grace)
      : membership_(membership), progress_(progress), hold_(grace / 2) {}

  /// OK: `what` ("step 7") may be committed. Else it is aborted: the membership's error, or kUnavailable
  /// where this worker is to go and no service answers.
  absl::Status Await(std::string_view what);
  /// The same of a worker that has no membership any more and is to go; so it is from then on. A service that
  /// has answered since it left its generation, and knows of none that followed, is as good as one that
  /// renewed its lease. kUnavailable, too, once the job's work is done or continues on other nodes. kAborted:
  /// a generation with this worker has formed, and its members wait for it: it has a membership again.
  absl::Status AwaitOutside(std::string_view what);
  /// At once: kUnavailable while the lease is over. Any thread.
  absl::Status MayCommit() const;

 private:
  bool LeaseIsOver() const;
  LeaseHold::Look LookAround() const;
  void Say(std::string_view what, const LeaseHold::Decision& decision);

  const Membership& membership_;
  ProgressLine& progress_;
  LeaseHold hold_;
  std::atomic<bool> outside_ = false;  // for good
};

}  // namespace mtrun::trainers
