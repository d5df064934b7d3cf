// Groups a node's failures by cause, so that each cause is reported once. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// A worker of this node that also failed.
struct OtherFailure {
  int rank = 0, local_rank = 0;
  int exit_code = 0, signal = 0;  // exit_code is valid if signal is 0
  std::string wall_time, message;
  int64_t pid = 0;
  bool stopped = false;  // it only exited because mtrun stopped it
};

/// Workers with the same failure: they exited in the same way, and the most informative line is the same
/// except for numbers (ranks, pids, ports).
struct FailureCause {
  std::vector<int> ranks;  // ascending
  OtherFailure first;      // the earliest in `others`
};

/// Groups the failures of workers that mtrun did not stop, in the order of `others`.
std::vector<FailureCause> FoldCauses(const std::vector<OtherFailure>& others);

/// Removes the failures that equal the root cause from `causes`, and returns their ranks.
std::vector<int> TakeAlike(const rendezvous::WorkerFailure& root_cause, std::vector<FailureCause>* causes);

/// Returns "rank 3" or "ranks 0-3, 7"; after eight ranges "ranks 0, 2, 4, ... and 24 more".
std::string RanksText(const std::vector<int>& ranks);

}  // namespace mtrun::launcher
