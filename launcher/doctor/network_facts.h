// Examines this machine's ports, clock, token, name and addresses for mtrun --doctor. Makes no token.
#pragma once

#include "base/worker_env.h"
#include "launcher/cli/options.h"
#include "launcher/doctor/network_findings.h"

namespace mtrun::launcher {

/// `listens`: port of an endpoint that this machine would host; 0 if it is elsewhere or already served.
NodeFacts LookAtNode(const Options& options, const EnvironmentMap& environment, bool several, int listens);

}  // namespace mtrun::launcher
