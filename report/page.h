// A page about runs: one file that asks for nothing from elsewhere. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report {

/// The whole file. `made`: when, as people read it. REQUIRES: at least one run.
std::string Page(const std::vector<RunRecord>& runs, const std::string& made);

/// What charts.js draws, of all runs over each other.
nlohmann::ordered_json ChartsOf(const std::vector<RunRecord>& runs);

/// The sections of one run, as HTML: results, classes and matrix, generations, checkpoints, settings.
std::string Tiles(const RunRecord& run);
std::string Sections(const RunRecord& run);

}  // namespace mtrun::report
