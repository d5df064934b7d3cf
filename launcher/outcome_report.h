// How mtrun reports a job that failed: the box on the console, and the error file for whoever started it.
#pragma once

#include <string>
#include <vector>

#include "launcher/output/console.h"
#include "launcher/output/failure_report.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// `others`: workers of this node that failed too. `error_file`: TORCHELASTIC_ERROR_FILE of mtrun itself, ""
/// for none; one that cannot be written is warned of.
void ReportOutcome(const rendezvous::JobOutcome& outcome, const std::string& program,
                   const std::vector<OtherFailure>& others, const std::string& error_file, Console& console);

}  // namespace mtrun::launcher
