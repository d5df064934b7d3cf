// mtrun --top: draws until q, Ctrl-C or a signal that ends it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "rendezvous/credentials.h"

namespace mtrun::launcher {

/// kFailedPrecondition where standard input or output is no terminal; an error where the service at `where`
/// does not answer the first question.
absl::Status RunTop(const std::string& where, const rendezvous::Credentials& credentials);

}  // namespace mtrun::launcher
