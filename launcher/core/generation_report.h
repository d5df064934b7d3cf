// What the service has heard from this node about the generation that runs here: at most one failure, one
// break, and rank 0's steps now and then. A value.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/types.h"

namespace mtrun::launcher {

class GenerationReport {
 public:
  /// How often the service hears of rank 0's steps.
  static constexpr int64_t kStepsPerReport = 100;

  /// False: one was reported before; the first one counts.
  bool AddFailure(const rendezvous::WorkerFailure& failure);
  bool AddBreak();
  /// Rank 0 has finished `step` steps. True: the service is to hear it, for the first time, after
  /// kStepsPerReport more, or when the run went back.
  bool AddSteps(int64_t step);

  const std::optional<rendezvous::WorkerFailure>& failure() const { return failure_; }
  bool broken() const { return broken_; }

  std::string Describe() const;
  bool operator==(const GenerationReport&) const = default;

 private:
  std::optional<rendezvous::WorkerFailure> failure_;
  bool broken_ = false;
  std::optional<int64_t> steps_;
};

}  // namespace mtrun::launcher
