// Faults that a test requests: MTRUN_FAULTS="rank=1 step=20 at=backward do=kill; rank=0 step=31 at=save
// do=stop". The rank is the worker's in the job's first membership, so that a replacement does not inherit a
// fault. If the variable is not set, the plan is empty and costs one comparison. Each fault fires once and is
// reported on standard error, so that a test can check that it did.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

struct Fault {
  enum class At {
    kSetUp,
    kForward,
    kBackward,
    kAllReduce,
    kRead,  // the step's sums have been read; with a device, the own record has not been sent yet
    kApply,
    kSave,
    kEvaluate
  };
  enum class Action {
    kKill,   // SIGKILL to itself
    kStop,   // SIGSTOP to itself
    kLeave,  // SIGTERM to itself: finish the step and leave
    kExit,   // exit(1)
    kThrow,  // an exception, as LibTorch throws it if a device has failed or memory is exhausted
  };
  int rank = 0;
  int64_t step = 0;
  At at = At::kForward;
  Action action = Action::kKill;
  bool operator==(const Fault&) const = default;
};

/// Returns kInvalidArgument if a part is malformed, and names it. Empty text: no faults.
absl::StatusOr<std::vector<Fault>> ParseFaults(std::string_view text);

class FaultPlan {
 public:
  FaultPlan() = default;
  /// Keeps those of `faults` that are for the worker that begins as `rank`.
  FaultPlan(std::vector<Fault> faults, int rank) : faults_(std::move(faults)) {
    std::erase_if(faults_, [rank](const Fault& fault) { return fault.rank != rank; });
  }

  /// Fires the fault that is planned for this place and step, if any. Throws std::runtime_error for kThrow.
  void Reach(Fault::At at, int64_t step) {
    if (!faults_.empty()) Fire(at, step);
  }

 private:
  void Fire(Fault::At at, int64_t step);
  std::vector<Fault> faults_;  // not fired yet
};

}  // namespace mtrun::trainers
