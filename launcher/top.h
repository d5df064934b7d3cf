// mtrun --top: draws until q, Ctrl-C or a stop signal.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/client/credentials.h"

namespace mtrun::launcher {

/// Shows the service among `endpoints` that has the job. kFailedPrecondition if standard input or output is
/// not a terminal; an error if no service answers the first request.
absl::Status RunTop(const std::vector<std::string>& endpoints, const rendezvous::Credentials& credentials);

}  // namespace mtrun::launcher
