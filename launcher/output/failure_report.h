// The box that every node prints when a job fails: what failed first, where, when, and its error text. Pure
// text.
#pragma once

#include <string>

#include "rendezvous/types.h"

namespace mtrun::launcher {

/// Several lines, the last one ended.
std::string FailureReport(const std::string& program, const rendezvous::JobOutcome& outcome);

}  // namespace mtrun::launcher
