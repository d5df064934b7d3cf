// One node's agent at work: posts what happens to AgentCore and performs what it decides, on one io_context
// thread.
#pragma once

#include "launcher/log_files.h"
#include "launcher/options.h"
#include "launcher/program.h"

namespace mtrun::launcher {

/// Meets the other nodes, runs the workers and returns mtrun's exit status. Call on the main thread, after
/// BecomeGuarded.
int RunAgent(const Options& options, const Program& program, LogFiles& log_files);

}  // namespace mtrun::launcher
