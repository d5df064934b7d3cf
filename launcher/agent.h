// One node's agent at run time: feeds events to AgentCore and performs its effects, on one io_context thread.
#pragma once

#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/net/presence_port.h"
#include "launcher/output/log_files.h"
#include "launcher/workers/lease_alarm.h"

namespace mtrun::launcher {

/// Joins the job's rendezvous, runs the workers and returns mtrun's exit status. Call on the main thread,
/// after BecomeGuarded, with the same `alarm`. The other nodes learn the address of `presence`.
int RunAgent(const Options& options, const Program& program, LogFiles& log_files,
             const PresencePort& presence, const LeaseAlarm& alarm);

}  // namespace mtrun::launcher
