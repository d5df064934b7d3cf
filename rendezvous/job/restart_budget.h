// Decides whether a job may restart after a worker failure: the job-wide budget, the failures that finished
// steps give back, and the crash loop that no budget covers. A value; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// Invariant: 0 <= refunded() and 0 <= used() <= max_restarts.
class RestartBudget {
 public:
  static constexpr int kMaxEarlyFailures = 3;  // in a row, of trainers that were never ready

  /// `refund_steps` steps give one restart back; 0: never, because the programs are not trainers.
  RestartBudget(int max_restarts, int refund_steps)
      : max_restarts_(max_restarts), refund_steps_(refund_steps) {}

  int count() const { return count_; }        // number of failures
  int refunded() const { return refunded_; }  // failures given back out of those
  int used() const { return count_ - refunded_; }
  bool Valid() const { return refunded_ >= 0 && used() >= 0 && used() <= max_restarts_; }
  /// As RestartText.
  std::string UsedText() const;
  /// Returns the failure as the cause of a restart.
  WorkerDied Died(WorkerFailure failure, bool counted_before = false) const;

  /// Takes over what an agent knows from an earlier service. Neither number decreases.
  void Raise(int count, int refunded);
  /// Returns why a restart cannot help whatever the budget; "" if it may.
  std::string WhyHopeless(const WorkerFailure& failure) const {
    return rendezvous::WhyHopeless(failure, refund_steps_ > 0);
  }
  /// True if such a failure concerns all nodes, because the others cannot continue without its node.
  bool ConcernsAll(const WorkerFailure& failure) const;
  /// Notes a failure. Returns "" if the job may restart, then call Spend(); otherwise why not.
  std::string Note(const WorkerFailure& failure);
  void Spend() { ++count_; }
  /// Notes the number of finished steps of the job. Returns one sentence for each restart given back.
  std::vector<std::string> OnSteps(int64_t step);

  std::string Describe() const;
  bool operator==(const RestartBudget&) const = default;

 private:
  int max_restarts_, refund_steps_;  // constant after construction
  int count_ = 0;
  int refunded_ = 0;
  int early_failures_ = 0;              // in a row
  std::optional<int64_t> refund_mark_;  // steps before this one give nothing back any more
};

}  // namespace mtrun::rendezvous
