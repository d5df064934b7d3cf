// Which run of its id a record of a job is about. Runs of one id have random incarnations; nodes bring the
// one they know. A service that has just started knows none and takes the first that it hears of. Once it is
// certain, nodes of other runs are turned away: theirs is over, and nobody remembers how it ended. A value;
// not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

/// Why a service is certain of its run; the greater one counts where two services have different ones.
enum class RunProof {
  kNone,
  kMembers,  // more than half of the members of a generation have come to it
  kFormed,   // it has formed one
};

/// A run that is over at a service: its nodes hear there how it has ended.
struct EndedRun {
  uint64_t incarnation = 0;
  uint64_t last_number = 0;  // of its generations there
  bool success = false;      // all members of that one have finished
  bool operator==(const EndedRun&) const = default;
};

class JobRun {
 public:
  /// `own`: its incarnation unless it hears of another one, at least 1. Nodes of an earlier run that still
  /// goes on have until `window_ends` to come.
  JobRun(uint64_t own, TimePoint window_ends)
      : incarnation_(std::max<uint64_t>(1, own)), window_ends_(window_ends) {}

  uint64_t incarnation() const { return incarnation_; }
  /// It is that run; what proves another one does not count.
  void Become(uint64_t incarnation) {
    if (std::max<uint64_t>(1, incarnation) == incarnation_) return;
    incarnation_ = std::max<uint64_t>(1, incarnation);
    proof_ = RunProof::kNone;
  }
  void Prove(RunProof proof) { proof_ = std::max(proof_, proof); }
  bool proven() const { return proof_ != RunProof::kNone; }
  /// What counts against other runs.
  RunProof Proof(TimePoint now) const { return now >= window_ends_ ? proof_ : RunProof::kNone; }
  /// For certain another run than this one. 0 is none.
  bool Excludes(uint64_t incarnation, TimePoint now) const {
    return IsOther(incarnation) && Proof(now) != RunProof::kNone;
  }
  bool IsOther(uint64_t incarnation) const { return incarnation != 0 && incarnation != incarnation_; }
  /// From when on nodes of other runs are turned away; nothing while it may still be theirs that goes on.
  std::optional<TimePoint> excludes_from() const {
    return proof_ == RunProof::kNone ? std::nullopt : std::optional(window_ends_);
  }
  bool operator==(const JobRun&) const = default;

 private:
  uint64_t incarnation_;
  TimePoint window_ends_;  // constant after construction
  RunProof proof_ = RunProof::kNone;
};

/// What a node hears whose own run of the job is over.
inline std::string OverForAnotherRun(const std::string& job_id) {
  return absl::StrCat("another run of the job \"", job_id,
                      "\" has begun, and how the one ended that this node was in ",
                      "is not known here; start it again to join the new one");
}

}  // namespace mtrun::rendezvous
