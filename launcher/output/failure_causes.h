// Which of a node's failures have the same cause, so that each is told once. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/types.h"

namespace mtrun::launcher {

/// A worker of this node that failed too.
struct OtherFailure {
  int rank = 0, local_rank = 0;
  int exit_code = 0, signal = 0;  // exit_code is valid when signal is 0
  std::string wall_time, message;
};

/// Workers that failed alike: they ended in the same way, and the line that says most is the same but for
/// numbers (ranks, pids, ports).
struct FailureCause {
  std::vector<int> ranks;  // ascending
  OtherFailure first;      // the earliest in `others`
};

/// In the order of `others`.
std::vector<FailureCause> FoldCauses(const std::vector<OtherFailure>& others);

/// Takes out of `causes` those that failed as the root cause did, and returns their ranks.
std::vector<int> TakeAlike(const rendezvous::WorkerFailure& root_cause, std::vector<FailureCause>* causes);

/// "rank 3", "ranks 0-3, 7"; of many ranges the first eight: "ranks 0, 2, 4, ... and 24 more".
std::string RanksText(const std::vector<int>& ranks);

}  // namespace mtrun::launcher
