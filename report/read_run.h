// A run folder on the disk as a RunRecord.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "report/run_record.h"

namespace mtrun::report {

/// kNotFound: the folder has neither metrics.jsonl nor config.yaml, so it is none of a run.
absl::StatusOr<RunRecord> ReadRun(const std::string& folder);

}  // namespace mtrun::report
