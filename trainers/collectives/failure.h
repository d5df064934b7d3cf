// The first failure of a group: the one word that every blocked call looks at.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/posix.h"

namespace mtrun::collectives {

/// Thread-safe. Once set it stays, with the status of the first failure.
class Failure {
 public:
  Failure();

  /// True when this was the first failure. `status` is not OK.
  bool Set(absl::Status status);
  bool failed() const { return failed_.load(); }
  /// OK until Set.
  absl::Status status() const;
  /// Readable (poll) from the first failure on; an eventfd that nobody drains.
  int event_fd() const { return event_.get(); }

 private:
  const UniqueFd event_;
  std::atomic<bool> failed_ = false;
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::collectives
