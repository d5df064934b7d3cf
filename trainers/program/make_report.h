// Starts mtreport to make the page about an ended run. It links libraries that the trainers do not.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::trainers {

/// Runs the mtreport of this program's own installation and waits for it, at most `timeout`. Errors are only
/// logged, because the run is complete without a page. `result_file`: also the figures as a text file.
void MakeReport(const std::string& model_folder, bool result_file, Duration timeout);

/// Runs `program --quiet model_folder`, with --result_file if asked, and returns its exit status. Kills it if
/// it is not over after `timeout`, or if its end cannot be watched.
absl::StatusOr<int> RunReporter(const std::string& program, const std::string& model_folder, bool result_file,
                                Duration timeout);

/// Returns the path of mtreport, or "" if there is none.
std::string FindMtreport(const std::string& executable_folder);

}  // namespace mtrun::trainers
