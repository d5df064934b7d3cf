// The box that every node prints when a job fails: what failed first, where, when, and its error text. Pure
// text.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/agent_events.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// A worker of this node that failed too.
struct OtherFailure {
  int rank = 0, local_rank = 0;
  int exit_code = 0, signal = 0;  // exit_code is valid when signal is 0
  std::string wall_time, message;
};

/// Its mtrun told it to stop, as torchrun does, and it had no error to record: that is no failure of its own.
bool OnlyObeyed(const WorkerExited& ended);

/// Several lines, the last one ended. Of each of the others one line and the first of its message.
std::string FailureReport(const std::string& program, const rendezvous::JobOutcome& outcome,
                          const std::vector<OtherFailure>& others = {});

}  // namespace mtrun::launcher
