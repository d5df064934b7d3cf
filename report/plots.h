// Plots as PNG files, for who had them: drawn by Cairo. Without it (MT_CAIRO=OFF) every call is
// kUnimplemented.
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
/// One pair of axes.
struct Panel {
  std::string title, x, y;
  std::vector<PlotLine> lines;
};

/// accuracy_plot.png: train and test accuracy of each epoch; no panel without classes.
std::vector<Panel> AccuracyPlot(const RunRecord& run);
/// training_metrics.png: loss of each epoch beside the accuracy.
std::vector<Panel> MetricsPlot(const RunRecord& run);

/// The panels beside each other, as a file. REQUIRES: at least one panel.
absl::Status WritePlot(const std::vector<Panel>& panels, const std::string& path);

/// Round numbers from at most `low` to at least `high`, about `count` of them. REQUIRES: both are finite.
std::vector<double> Ticks(double low, double high, int count);

}  // namespace mtrun::report
