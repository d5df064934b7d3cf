// A page about runs: one self-contained file. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report {

/// Returns the whole file. `made` is the time of its creation, for people. REQUIRES: at least one run.
std::string Page(const std::vector<RunRecord>& runs, const std::string& made);

/// Returns the charts for charts.js, with all runs overlaid.
nlohmann::ordered_json ChartsOf(const std::vector<RunRecord>& runs);

/// Returns the sections of one run, as HTML: results, classes and matrix, generations, checkpoints, settings.
std::string Tiles(const RunRecord& run);
std::string Sections(const RunRecord& run);

}  // namespace mtrun::report
