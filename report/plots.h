// Plots as PNG files, drawn by Cairo, for users of the earlier programs. Without Cairo (MT_CAIRO=OFF) every
// call returns kUnimplemented.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "report/run_record.h"

namespace mtrun::report {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite
};
/// The plot of one pair of axes.
struct Panel {
  std::string title, x, y;
  std::vector<PlotLine> lines;
};

/// Returns accuracy_plot.png: train and test accuracy of each epoch; no panel for a run without classes.
std::vector<Panel> AccuracyPlot(const RunRecord& run);
/// Returns training_metrics.png: the loss of each epoch beside the accuracy.
std::vector<Panel> MetricsPlot(const RunRecord& run);

/// Writes the panels side by side to a file. REQUIRES: at least one panel.
absl::Status WritePlot(const std::vector<Panel>& panels, const std::string& path);

/// Returns about `count` round numbers that cover `low` to `high`. REQUIRES: both are finite.
std::vector<double> Ticks(double low, double high, int count);

}  // namespace mtrun::report
