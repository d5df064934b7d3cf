// One node's agent at work: posts what happens to AgentCore and performs what it decides, on one io_context
// thread.
#pragma once

#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/net/presence_port.h"
#include "launcher/output/log_files.h"
#include "launcher/workers/lease_alarm.h"

namespace mtrun::launcher {

/// Joins the job's rendezvous, runs the workers and returns mtrun's exit status. Call on the main thread,
/// after BecomeGuarded, which knows `alarm`; the other nodes are told of `presence`.
int RunAgent(const Options& options, const Program& program, LogFiles& log_files,
             const PresencePort& presence, const LeaseAlarm& alarm);

}  // namespace mtrun::launcher
