// The charts of a page: loss, accuracy, learning rate, throughput, world size, and the speed of each worker.
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "report/curve.h"
#include "report/page.h"

namespace mtrun::report {
namespace {

using Json = nlohmann::ordered_json;

/// Rounds to the digits that a screen shows; 17 digits would triple the size of a page.
Json Short(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof(text), "%.5g", value);
  return std::strtod(text, nullptr);
}

Json Points(const std::vector<CurvePoint>& curve, double CurvePoint::*part = &CurvePoint::mean) {
  Json points = Json::array();
  for (const CurvePoint& point : curve) points.push_back({point.step, Short(point.*part)});
  return points;
}

/// Prefixes the run's name if a chart shows several runs.
std::string NameIn(const std::vector<RunRecord>& runs, const RunRecord& run, const std::string& what) {
  return runs.size() == 1 ? what : absl::StrCat(run.name, " ", what);
}

Json Marks(const std::vector<RunRecord>& runs) {
  Json marks = Json::array();
  if (runs.size() > 1) return marks;  // the marks of several runs are indistinguishable
  const auto& generations = runs[0].generations;
  for (size_t i = 0; i < generations.size(); ++i) {
    const Generation& generation = generations[i];
    if (generation.first_step == 0) continue;
    std::string text = absl::StrCat("generation ", generation.number);
    if (generation.world > 0) absl::StrAppend(&text, ": ", generation.world, " workers");
    if (!generation.why.empty()) absl::StrAppend(&text, " (", generation.why.substr(0, 90), ")");
    marks.push_back({generation.first_step, text});
  }
  return marks;
}

using Add = std::function<void(const RunRecord& run, size_t number, Json& series)>;

struct Builder {
  const std::vector<RunRecord>& runs;
  int64_t last = 0;
  Json charts = Json::array();

  void Chart(const char* id, const char* y, const Add& add, const Json& more = Json::object()) {
    Json series = Json::array();
    for (size_t i = 0; i < runs.size(); ++i) add(runs[i], i, series);
    if (series.empty()) return;
    Json chart = {{"id", id},  {"y", y},    {"series", series}, {"marks", Marks(runs)},
                  {"from", 0}, {"to", last}};
    chart.update(more);
    charts.push_back(chart);
  }
};

Json Epochs(const RunRecord& run, const std::function<std::optional<double>(const EpochPoint&)>& value) {
  Json points = Json::array();
  for (const EpochPoint& epoch : run.epochs) {
    if (const auto y = value(epoch); y && std::isfinite(*y)) points.push_back({epoch.steps, Short(*y)});
  }
  return points;
}

void AddLoss(const std::vector<RunRecord>& runs, const RunRecord& run, size_t number, Json& series) {
  const auto train = Thin(run.steps, [](const StepPoint& step) { return step.loss; });
  Json line = {{"name", NameIn(runs, run, "train")}, {"colour", 2 * number}, {"points", Points(train)}};
  // If a point stands for several steps, show their spread, unless several runs would make it unreadable.
  if (runs.size() == 1 && run.steps.size() > kMaxPoints) {
    line["low"] = Points(train, &CurvePoint::low);
    line["high"] = Points(train, &CurvePoint::high);
  }
  if (!train.empty()) series.push_back(line);
  const Json test = Epochs(run, [](const EpochPoint& epoch) { return std::optional(epoch.test_loss); });
  if (!test.empty()) {
    series.push_back({{"name", NameIn(runs, run, EvaluatedOn(run))},
                      {"colour", 2 * number + 1},
                      {"points", test},
                      {"dots", true}});
  }
}

void AddAccuracy(const std::vector<RunRecord>& runs, const RunRecord& run, size_t number, Json& series) {
  const auto percent = [](std::optional<double> share) {
    return share ? std::optional(100 * *share) : std::nullopt;
  };
  const Json train = Epochs(run, [&](const EpochPoint& epoch) { return percent(epoch.train_accuracy); });
  const Json test = Epochs(run, [&](const EpochPoint& epoch) { return percent(epoch.test_accuracy); });
  if (test.empty()) return;
  series.push_back({{"name", NameIn(runs, run, "train")},
                    {"colour", 2 * number},
                    {"points", train},
                    {"dots", true},
                    {"dashed", runs.size() > 1}});
  series.push_back({{"name", NameIn(runs, run, EvaluatedOn(run))},
                    {"colour", 2 * number + (runs.size() == 1 ? 1 : 0)},
                    {"points", test},
                    {"dots", true}});
}

void AddWorlds(const std::vector<RunRecord>& runs, const RunRecord& run, size_t number, int64_t last,
               Json& series) {
  Json points = Json::array();
  for (const auto& [step, world] : run.worlds) points.push_back({step, world});
  if (points.empty()) {
    for (const Generation& generation : run.generations)
      points.push_back({generation.first_step, generation.world});
  }
  if (points.empty()) return;
  const int64_t end = run.steps.empty() ? last : run.steps.back().step;
  points.push_back({end, points.back()[1]});
  series.push_back(
      {{"name", NameIn(runs, run, "workers")}, {"colour", number}, {"points", points}, {"stepped", true}});
}

/// Adds each worker's own time per step in ms, for the first few workers if there are very many.
void AddWorkers(const std::vector<RunRecord>& runs, const RunRecord& run, Json& series) {
  constexpr size_t kMaxWorkers = 8;
  if (runs.size() > 1) return;
  size_t workers = 0;
  for (const WorkerPoint& point : run.workers) workers = std::max(workers, point.compute.size());
  for (size_t rank = 0; rank < std::min(workers, kMaxWorkers); ++rank) {
    Json points = Json::array();
    for (const WorkerPoint& point : run.workers) {
      if (rank < point.compute.size())
        points.push_back({point.steps, Short(1e3 * (point.compute[rank] + point.data[rank]))});
    }
    series.push_back({{"name", absl::StrCat("rank ", rank)}, {"points", points}});
  }
}

}  // namespace

nlohmann::ordered_json ChartsOf(const std::vector<RunRecord>& runs) {
  Builder page{.runs = runs};
  for (const RunRecord& run : runs) {
    if (!run.steps.empty()) page.last = std::max(page.last, run.steps.back().step + 1);
  }
  page.Chart("loss", "loss",
             [&](const RunRecord& run, size_t i, Json& series) { AddLoss(runs, run, i, series); });
  page.Chart("accuracy", "accuracy, %",
             [&](const RunRecord& run, size_t i, Json& series) { AddAccuracy(runs, run, i, series); });
  page.Chart(
      "rate", "learning rate",
      [&](const RunRecord& run, size_t i, Json& series) {
        const auto curve = Thin(
            run.steps, [](const StepPoint& step) { return step.learning_rate; }, 200);
        if (!curve.empty())
          series.push_back({{"name", NameIn(runs, run, "")}, {"colour", i}, {"points", Points(curve)}});
      },
      {{"zero", true}});
  page.Chart(
      "throughput", "images/s",
      [&](const RunRecord& run, size_t i, Json& series) {
        const auto curve = Throughput(run.steps);
        if (!curve.empty())
          series.push_back({{"name", NameIn(runs, run, "")}, {"colour", i}, {"points", Points(curve)}});
      },
      {{"zero", true}});
  page.Chart(
      "world", "workers",
      [&](const RunRecord& run, size_t i, Json& series) { AddWorlds(runs, run, i, page.last, series); },
      {{"zero", true}, {"whole", true}});
  page.Chart("workers", "own ms per step",
             [&](const RunRecord& run, size_t, Json& series) { AddWorkers(runs, run, series); },
             {{"zero", true}});
  return page.charts;
}

}  // namespace mtrun::report
