// Reads a run folder from the disk into a RunRecord.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "report/run_record.h"

namespace mtrun::report {

/// Reads a run. kNotFound if the folder has neither metrics.jsonl nor config.yaml, so it is not a run folder.
absl::StatusOr<RunRecord> ReadRun(const std::string& folder);

}  // namespace mtrun::report
