// mtrun --top: draws until q, Ctrl-C or a signal that ends it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/credentials.h"

namespace mtrun::launcher {

/// Of the service among `endpoints` that has the job. kFailedPrecondition where standard input or output is
/// no terminal; an error where no service answers the first question.
absl::Status RunTop(const std::vector<std::string>& endpoints, const rendezvous::Credentials& credentials);

}  // namespace mtrun::launcher
