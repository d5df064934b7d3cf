// How many failures of workers a job may restart from: the job-wide budget, what finished steps give back to
// it, and the crash loop that no budget pays for. A value; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// Invariant: 0 <= refunded() and 0 <= used() <= max_restarts.
/// "restart 2 of 3"; where steps have given some back "restart 5 (1 of 3 used)".
std::string RestartText(int count, int refunded, int max_restarts);

class RestartBudget {
 public:
  static constexpr int kMaxEarlyFailures = 3;  // in a row, of trainers that had never been ready
  /// What trainers exit with when they hold different states of one step.
  static constexpr int kDifferentStatesStatus = 3;

  /// `refund_steps` steps give one restart back; 0: never, the programs are not trainers.
  RestartBudget(int max_restarts, int refund_steps)
      : max_restarts_(max_restarts), refund_steps_(refund_steps) {}

  int count() const { return count_; }        // failures in all
  int refunded() const { return refunded_; }  // of those, given back
  int used() const { return count_ - refunded_; }
  bool Valid() const { return refunded_ >= 0 && used() >= 0 && used() <= max_restarts_; }
  /// As RestartText.
  std::string UsedText() const;

  /// What an agent knows from an earlier service. Neither number goes down.
  void Raise(int count, int refunded);
  /// Why a restart cannot help whatever the budget; "" when it may.
  std::string WhyHopeless(const WorkerFailure& failure) const;
  /// Such a failure is not its node's alone: the others cannot go on without that node either.
  bool ConcernsAll(const WorkerFailure& failure) const;
  /// Takes note of a failure. "" when the job may restart: Spend() then; otherwise why not.
  std::string Note(const WorkerFailure& failure);
  void Spend() { ++count_; }
  /// So many steps are finished since the job began. One sentence for each restart that this gives back.
  std::vector<std::string> OnSteps(int64_t step);

  std::string Describe() const;
  bool operator==(const RestartBudget&) const = default;

 private:
  int max_restarts_, refund_steps_;  // constant after construction
  int count_ = 0;
  int refunded_ = 0;
  int early_failures_ = 0;              // in a row
  std::optional<int64_t> refund_mark_;  // steps before this one have earned what they could
};

}  // namespace mtrun::rendezvous
