#include "launcher/outcome_report.h"

#include "base/log.h"
#include "launcher/output/own_error_file.h"

namespace mtrun::launcher {

void ReportOutcome(const rendezvous::JobOutcome& outcome, const std::string& program,
                   const std::vector<OtherFailure>& others, const std::string& error_file, Console& console) {
  console.Say(FailureReport(program, outcome, others));
  if (error_file.empty()) return;
  const absl::Status written = WriteOwnErrorFile(error_file, outcome);
  if (!written.ok()) log::Warning(written.message());
}

}  // namespace mtrun::launcher
