// Runs as text: a list, a comparison, and a run's epochs as CSV. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace mtrun::report {

struct ListedRun {
  std::string folder;
  RunRecord run;
  double age = 0;  // seconds since its last record
};

/// Returns a table, the youngest run first: folder, best figure, state, age, and the settings that differ
/// among the runs of the same program.
std::string ListText(std::vector<ListedRun> runs);

/// Returns a table with a column for each run: settings that differ, then figures.
std::string CompareText(const std::vector<ListedRun>& runs);

/// Returns a header and a line for each epoch: epoch, steps, losses, accuracies (fractions, empty without
/// classes), seconds of training, and the data of the evaluation.
std::string EpochsCsv(const RunRecord& run);

/// Returns "40 s", "3 min", "5 h", "12 days".
std::string AgeText(double seconds);

}  // namespace mtrun::report
