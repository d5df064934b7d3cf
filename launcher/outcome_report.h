// Reports a failed job: the box on the console, and the error file for the parent process.
#pragma once

#include <string>
#include <vector>

#include "launcher/output/console.h"
#include "launcher/output/failure_report.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// `others`: failed workers of this node. `error_file`: mtrun's own TORCHELASTIC_ERROR_FILE, "" for none; if
/// it cannot be written a warning is logged.
void ReportOutcome(const rendezvous::JobOutcome& outcome, const std::string& program,
                   const std::vector<OtherFailure>& others, const std::string& error_file, Console& console);

}  // namespace mtrun::launcher
