// Which workers the guardian has killed because their node's lease had ended, told to the agent: both hold
// one piece of memory, so that the agent knows it however late it looks, also when it was stopped itself. One
// process adds, one takes; in each one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

class LeaseKills {
 public:
  static constexpr size_t kMost = 4096;  // kept; then the oldest are overwritten

  /// To be made before the guardian is forked.
  static absl::StatusOr<LeaseKills> Make();
  LeaseKills() = default;  // none: nothing is kept

  /// Before the signal is sent. REQUIRES: pid > 0.
  void Add(pid_t pid) const;
  /// True once for a pid that was added.
  bool Take(pid_t pid) const;
  /// No worker is left: pids may come again.
  void Forget() const;

 private:
  struct Pids;
  struct Unmap {
    void operator()(Pids* pids) const;
  };

  std::unique_ptr<Pids, Unmap> pids_;
};

}  // namespace mtrun::launcher
