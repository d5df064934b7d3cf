// The box that every node prints when a job fails: what failed first, where, when, and its error text. Pure
// text.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/agent_events.h"
#include "launcher/output/failure_causes.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// Its mtrun told it to stop, as torchrun does, and it had no error to record: that is no failure of its own.
bool OnlyObeyed(const WorkerExited& ended);

/// Several lines, the last one ended. At most kMostLines of the root cause's message, and as many for all
/// others: those who failed as it did are named with it, those who failed alike together.
std::string FailureReport(const std::string& program, const rendezvous::JobOutcome& outcome,
                          const std::vector<OtherFailure>& others = {});

}  // namespace mtrun::launcher
