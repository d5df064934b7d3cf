// Looks at this machine's ports, clock, token, name and addresses for mtrun --doctor. Makes no token.
#pragma once

#include "base/worker_env.h"
#include "launcher/cli/options.h"
#include "launcher/doctor/network_findings.h"

namespace mtrun::launcher {

/// `listens`: the port of an endpoint that this machine would host; 0 where that is another one's, or taken
/// by who answers there.
NodeFacts LookAtNode(const Options& options, const EnvironmentMap& environment, bool several, int listens);

}  // namespace mtrun::launcher
