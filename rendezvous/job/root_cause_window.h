// Waits, after a failure that ends the job, for earlier failures from other nodes: the earliest one is the
// root cause. A value; not thread-safe.
#pragma once

#include <set>
#include <string>

#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class RootCauseWindow {
 public:
  static constexpr Duration kLength = std::chrono::milliseconds(500);

  /// `why`: the reason why the job does not restart after the failure that `node_id` reports.
  RootCauseWindow(const std::string& node_id, WorkerFailure failure, std::string why, TimePoint now);

  /// Adds another failure of the same generation. Clocks of nodes differ, so it affects only the root cause.
  void AddReport(const std::string& node_id, const WorkerFailure& failure);
  TimePoint due() const { return due_; }
  /// True if no further report can come: every member has failed, finished, stopped or gone.
  bool Complete(const GenerationRecord& generation, const Roster& roster) const;
  /// Returns how the job ends, by what is known now.
  JobOutcome Outcome() const;

  /// Times relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const RootCauseWindow&) const = default;

 private:
  WorkerFailure trigger_, cause_;  // the failure that opened it, and the earliest one
  std::string why_;
  TimePoint due_;
  std::set<std::string> heard_;  // nodes that have reported a failure
};

}  // namespace mtrun::rendezvous
