// Record of the workers that the guardian has killed because their node's lease had ended. It is in memory
// shared with the agent, which can thus read it at any time, even after having been suspended. One process
// adds, one takes; one thread at a time in each.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

class LeaseKills {
 public:
  static constexpr size_t kMost = 4096;  // the oldest are overwritten after that

  /// Call before the guardian is forked.
  static absl::StatusOr<LeaseKills> Make();
  LeaseKills() = default;  // no record: nothing is kept

  /// Call before the signal is sent. REQUIRES: pid > 0.
  void Add(pid_t pid) const;
  /// Returns true once for a pid that was added.
  bool Take(pid_t pid) const;
  /// Clears the record when no worker is left, because pids may be reused.
  void Forget() const;

 private:
  struct Pids;
  struct Unmap {
    void operator()(Pids* pids) const;
  };

  std::unique_ptr<Pids, Unmap> pids_;
};

}  // namespace mtrun::launcher
