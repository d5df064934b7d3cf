// Faults that a test orders: MTRUN_FAULTS="rank=1 step=20 at=backward do=kill; rank=0 step=31 at=save
// do=stop". The rank is the worker's in the job's first membership, so that nobody inherits the fault of a
// dead one. A run without the variable has no plan and pays one comparison. Each fault fires once and says so
// on standard error, so that a test can see that it did.
#pragma once

#include <cstdint>
#include <string>
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
    kRead,  // the step's sums have been read; with a device the own record is not on its way yet
    kApply,
    kSave,
    kEvaluate
  };
  enum class Action {
    kKill,   // SIGKILL to itself
    kStop,   // SIGSTOP to itself
    kLeave,  // SIGTERM to itself: finish the step and go
    kExit,   // exit(1)
    kThrow,  // an exception, as LibTorch throws one where a device has failed or memory is out
  };
  int rank = 0;
  int64_t step = 0;
  At at = At::kForward;
  Action action = Action::kKill;
  bool operator==(const Fault&) const = default;
};

/// kInvalidArgument names the malformed part. Empty text: no faults.
absl::StatusOr<std::vector<Fault>> ParseFaults(std::string_view text);

class FaultPlan {
 public:
  FaultPlan() = default;
  /// Those of `faults` that are for the worker that begins as `rank`.
  FaultPlan(std::vector<Fault> faults, int rank) : faults_(std::move(faults)) {
    std::erase_if(faults_, [rank](const Fault& fault) { return fault.rank != rank; });
  }

  /// The place in the program. Does what is planned for it; throws std::runtime_error where that is planned.
  void Reach(Fault::At at, int64_t step) {
    if (!faults_.empty()) Fire(at, step);
  }

 private:
  void Fire(Fault::At at, int64_t step);
  std::vector<Fault> faults_;  // that have not fired
};

}  // namespace mtrun::trainers
