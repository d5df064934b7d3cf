// What a person reads at the end of a run: one screen. Pure; report.txt has all of it.
#pragma once

#include <string>

#include "trainers/run/report.h"

namespace mtrun::trainers {

/// Classes whose confusions fit a screen.
inline constexpr int kMostMatrixClasses = kManyClasses - 1;

/// Results and settings in a few lines; with up to 20 classes the confusion matrix with each class's recall,
/// precision and F1 beside it, else the 10 classes of the lowest F1 and the 10 most frequent confusions. No
/// line is longer than `columns` (0: 80; at least 64): names lose their end, and where counts do not fit a
/// row is in percent.
std::string SummaryText(const RunReport& report, int columns = 80);
/// The part of it about the classes; "" without any.
std::string ClassesText(const RunReport& report, int columns = 80);

}  // namespace mtrun::trainers
