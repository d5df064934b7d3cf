// Identifies the run that a job's record is about. Runs of one job id have random incarnations, and nodes
// report the one they know. A service that has just started knows none and takes the first that it learns of.
// After it is certain, it turns away nodes of other runs: their run is over, and its outcome is not known any
// more. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace mtrun::rendezvous {

/// Why a service is certain of its run. If two services have different runs, the greater value counts.
enum class RunProof {
  kNone,
  kMembers,  // more than half of the members of a generation have come to it
  kFormed,   // it has formed a generation
};

/// A run that is over at a service, where its nodes learn how it ended.
struct EndedRun {
  uint64_t incarnation = 0;
  uint64_t last_number = 0;  // number of its last generation there
  bool success = false;      // all members of its last generation have finished
  bool operator==(const EndedRun&) const = default;
};

class JobRun {
 public:
  /// `own`: its incarnation unless it learns of another one, at least 1. Nodes of an earlier run that still
  /// continues have until `window_ends` to come.
  JobRun(uint64_t own, TimePoint window_ends)
      : incarnation_(std::max<uint64_t>(1, own)), window_ends_(window_ends) {}

  uint64_t incarnation() const { return incarnation_; }
  /// Takes over this run; proof for another one does not count.
  void Become(uint64_t incarnation) {
    if (std::max<uint64_t>(1, incarnation) == incarnation_) return;
    incarnation_ = std::max<uint64_t>(1, incarnation);
    proof_ = RunProof::kNone;
  }
  void Prove(RunProof proof) { proof_ = std::max(proof_, proof); }
  bool proven() const { return proof_ != RunProof::kNone; }
  /// The proof that counts against other runs.
  RunProof Proof(TimePoint now) const { return now >= window_ends_ ? proof_ : RunProof::kNone; }
  /// True if it is certainly another run than this one. 0 stands for none.
  bool Excludes(uint64_t incarnation, TimePoint now) const {
    return IsOther(incarnation) && Proof(now) != RunProof::kNone;
  }
  bool IsOther(uint64_t incarnation) const { return incarnation != 0 && incarnation != incarnation_; }
  /// Returns when nodes of other runs are turned away; empty while their run may be the one that continues.
  std::optional<TimePoint> excludes_from() const {
    return proof_ == RunProof::kNone ? std::nullopt : std::optional(window_ends_);
  }
  bool operator==(const JobRun&) const = default;

 private:
  uint64_t incarnation_;
  TimePoint window_ends_;  // constant after construction
  RunProof proof_ = RunProof::kNone;
};

}  // namespace mtrun::rendezvous
