// The summary at the end of a run: one screen. Pure; report.txt has the full results.
#pragma once

#include <string>

#include "trainers/run/records/report.h"

namespace mtrun::trainers {

/// Returns results and settings in a few lines. With up to 20 classes: the confusion matrix, with each
/// class's recall, precision and F1. With more: the 10 classes with the lowest F1 and the 10 most frequent
/// confusions. Lines have at most `columns` columns (0: 80; at least 64): names are cut, and if counts do not
/// fit, rows are in percent.
std::string SummaryText(const RunReport& report, int columns = 80);
/// Returns its part about the classes; "" if there are none.
std::string ClassesText(const RunReport& report, int columns = 80);

}  // namespace mtrun::trainers
