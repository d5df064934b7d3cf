// The first failure of a group, which every blocked call checks.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/posix.h"

namespace mtrun::collectives {

/// Holds the status of the first failure and ignores later ones. Thread-safe.
class Failure {
 public:
  Failure();

  /// Records `status`, which is not OK. Returns true if it is the first failure.
  bool Set(absl::Status status);
  bool failed() const { return failed_.load(); }
  /// Returns OK until Set.
  absl::Status status() const;
  /// Readable (poll) from the first failure on; an eventfd that is never drained.
  int event_fd() const { return event_.get(); }

 private:
  const UniqueFd event_;
  std::atomic<bool> failed_ = false;
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::collectives
