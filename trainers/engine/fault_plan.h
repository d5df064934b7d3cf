// Faults that a test orders: MTRUN_FAULTS="rank=1 step=20 at=backward do=kill; rank=0 step=31 at=save
// do=stop". A run without the variable has no plan and pays one comparison. Each fault fires once and says so
// on standard error, so that a test can see that it did.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::engine {

struct Fault {
  enum class At { kForward, kBackward, kAllReduce, kApply, kSave, kEvaluate };
  enum class Do {
    kKill,   // SIGKILL to itself
    kStop,   // SIGSTOP to itself
    kLeave,  // SIGTERM to itself: finish the step and go
    kExit,   // exit(1)
  };
  int rank = 0;
  int64_t step = 0;
  At at = At::kForward;
  Do action = Do::kKill;
  bool operator==(const Fault&) const = default;
};

/// kInvalidArgument names the malformed part. Empty text: no faults.
absl::StatusOr<std::vector<Fault>> ParseFaults(std::string_view text);

class FaultPlan {
 public:
  FaultPlan() = default;
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  /// The place in the program. Carries out what is planned for it.
  void Reach(Fault::At at, int rank, int64_t step) {
    if (!faults_.empty()) Fire(at, rank, step);
  }

 private:
  void Fire(Fault::At at, int rank, int64_t step);
  std::vector<Fault> faults_;  // that have not fired
};

}  // namespace mtrun::engine
