#include "report/plots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace mtrun::report {
namespace {

PlotLine LineOf(const RunRecord& run, const std::string& name,
                const std::function<std::optional<double>(const EpochPoint&)>& value) {
  PlotLine line{.name = name, .points = {}};
  for (const EpochPoint& epoch : run.epochs) {
    const std::optional<double> y = value(epoch);
    if (y && std::isfinite(*y)) line.points.emplace_back(static_cast<double>(epoch.epoch), *y);
  }
  return line;
}

std::vector<Panel> PanelOf(const std::string& title, const std::string& y, std::vector<PlotLine> lines) {
  std::erase_if(lines, [](const PlotLine& line) { return line.points.empty(); });
  if (lines.empty()) return {};
  return {Panel{.title = title, .x = "epoch", .y = y, .lines = std::move(lines)}};
}

}  // namespace

std::vector<Panel> AccuracyPlot(const RunRecord& run) {
  const auto percent = [](std::optional<double> share) {
    return share ? std::optional(100 * *share) : std::nullopt;
  };
  return PanelOf(
      "Accuracy", "accuracy, %",
      {LineOf(run, "train", [&](const EpochPoint& e) { return percent(e.train_accuracy); }),
       LineOf(run, EvaluatedOn(run), [&](const EpochPoint& e) { return percent(e.test_accuracy); })});
}

std::vector<Panel> MetricsPlot(const RunRecord& run) {
  std::vector<Panel> panels = PanelOf(
      "Loss", "loss",
      {LineOf(run, "train", [](const EpochPoint& e) { return std::optional(e.train_loss); }),
       LineOf(run, EvaluatedOn(run), [](const EpochPoint& e) { return std::optional(e.test_loss); })});
  for (Panel& panel : AccuracyPlot(run)) panels.push_back(std::move(panel));
  return panels;
}

std::vector<double> Ticks(double low, double high, int count) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) / 10;
    low -= room;
    high += room;
  }
  const double rough = (high - low) / std::max(1, count);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  const double first = std::floor(low / step);
  std::vector<double> ticks;
  for (int i = 0; i <= 4 * std::max(1, count); ++i) {
    ticks.push_back((first + i) * step);
    if (ticks.back() >= high) break;
  }
  return ticks;
}

}  // namespace mtrun::report
