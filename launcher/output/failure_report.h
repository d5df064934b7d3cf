// The box that every node prints if a job fails: first failure, place, time and error text. Pure text.
// Headings and names of fields are those of torchrun's report, so that programs that search a log for them
// find them.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/agent_events.h"
#include "launcher/output/failure_causes.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Returns whether the worker only exited because mtrun stopped it (as torchrun does): no failure of its own.
bool OnlyObeyed(const WorkerExited& ended);

/// Returns several complete lines: at most kMaxLines of the root cause's message, and one of each other
/// cause. Workers that failed like the root cause are listed with it; other equal failures are grouped.
/// Workers that mtrun stopped come last.
std::string FailureReport(const std::string& program, const rendezvous::JobOutcome& outcome,
                          const std::vector<OtherFailure>& others = {});

}  // namespace mtrun::launcher
