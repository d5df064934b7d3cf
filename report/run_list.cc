#include "report/run_list.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "base/value_or.h"

namespace mtrun::report {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Settings that say where and how a run is recorded, not what it trains.
const std::set<std::string> kNotOfTraining = {"model_folder", "settings", "tensorboard", "report",
                                              "result_file",  "preview",  "log_every"};

/// Returns the rows as columns of equal width, two spaces apart; the last column is not padded.
std::string Aligned(Rows rows) {
  std::vector<size_t> widths;
  for (auto& row : rows)
    for (std::string& cell : row) cell = AsPlainText(cell);  // folders can come from elsewhere
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ColumnsOf(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - ColumnsOf(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::map<std::string, std::string> SettingsOf(const RunRecord& run) {
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : run.settings)
    if (!kNotOfTraining.contains(name)) settings[name] = value;
  return settings;
}

/// Returns the names, in order, whose values are not the same in all runs.
std::vector<std::string> Differing(const std::vector<const RunRecord*>& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> counts;
  for (const RunRecord* run : runs) {
    for (const auto& [name, value] : SettingsOf(*run)) {
      values[name].insert(value);
      ++counts[name];
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, all] : values)
    if (all.size() > 1 || counts[name] < runs.size()) names.push_back(name);
  return names;
}

std::string PercentText(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::optional<double> BestAccuracy(const RunRecord& run) {
  std::optional<double> best;
  for (const EpochPoint& epoch : run.epochs)
    if (epoch.test_accuracy) best = std::max(best.value_or(0), *epoch.test_accuracy);
  return run.result && run.result->best_accuracy ? run.result->best_accuracy : best;
}

std::string BestText(const RunRecord& run) {
  if (const auto accuracy = BestAccuracy(run)) return PercentText(*accuracy);
  if (run.epochs.empty()) return "-";
  double least = run.epochs.front().test_loss;
  for (const EpochPoint& epoch : run.epochs) least = std::min(least, epoch.test_loss);
  return absl::StrFormat("loss %.4g", least);
}

std::string StateText(const RunRecord& run) {
  if (run.result) return "complete";
  if (!run.epochs.empty()) {
    const auto settings = SettingsOf(run);
    const auto all = settings.find("epochs");
    return absl::StrCat("epoch ", run.epochs.back().epoch,
                        all == settings.end() ? "" : absl::StrCat(" of ", all->second));
  }
  return run.steps.empty() ? "no step" : absl::StrCat("step ", run.steps.back().step + 1);
}

std::string NumberText(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.9g", *value) : "";
}

}  // namespace

std::string AgeText(double seconds) {
  if (seconds < 100) return absl::StrFormat("%.0f s", std::max(seconds, 0.0));
  if (seconds < 100 * 60) return absl::StrFormat("%.0f min", seconds / 60);
  if (seconds < 48 * 3600) return absl::StrFormat("%.0f h", seconds / 3600);
  return absl::StrFormat("%.0f days", seconds / 86400);
}

std::string ListText(std::vector<ListedRun> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const ListedRun& a, const ListedRun& b) { return a.age < b.age; });
  std::map<std::string, std::vector<const RunRecord*>> of_program;
  for (const ListedRun& each : runs) of_program[each.run.program].push_back(&each.run);
  std::map<std::string, std::vector<std::string>> differing;
  for (const auto& [program, records] : of_program) differing[program] = Differing(records);
  Rows rows = {{"run", "best", "state", "age", "settings that differ"}};
  for (const ListedRun& each : runs) {
    const auto settings = SettingsOf(each.run);
    std::vector<std::string> differs;
    for (const std::string& name : differing[each.run.program]) {
      const auto found = settings.find(name);
      if (found != settings.end()) differs.push_back(absl::StrCat(name, "=", found->second));
    }
    rows.push_back({each.folder, BestText(each.run), StateText(each.run), AgeText(each.age),
                    absl::StrJoin(differs, " ")});
  }
  return Aligned(std::move(rows));
}

std::string CompareText(const std::vector<ListedRun>& runs) {
  Rows rows = {{""}};
  std::vector<const RunRecord*> records;
  for (const ListedRun& each : runs) {
    rows.front().push_back(each.folder);
    records.push_back(&each.run);
  }
  const auto add = [&](const std::string& name, const auto& text_of) {
    std::vector<std::string> row = {name};
    for (const RunRecord* run : records) row.push_back(text_of(*run));
    rows.push_back(std::move(row));
  };
  add("program", [](const RunRecord& run) { return run.program; });
  for (const std::string& name : Differing(records)) {
    add(name, [&name](const RunRecord& run) { return ValueOr(SettingsOf(run), name, "-"); });
  }
  add("state", StateText);
  add("best", BestText);
  const auto of_result = [&](const std::string& name, const auto& text_of) {
    add(name, [&](const RunRecord& run) { return run.result ? text_of(*run.result) : std::string("-"); });
  };
  of_result("test accuracy", [](const Result& it) {
    return it.test_accuracy ? PercentText(*it.test_accuracy) : std::string("-");
  });
  of_result("test loss", [](const Result& it) { return absl::StrFormat("%.4f", it.test_loss); });
  of_result("best epoch", [](const Result& it) { return absl::StrCat(it.best_epoch); });
  of_result("steps", [](const Result& it) { return absl::StrCat(it.steps); });
  of_result("workers", [](const Result& it) { return absl::StrCat(it.world); });
  of_result("training", [](const Result& it) { return absl::StrFormat("%.1f s", it.training_seconds); });
  of_result("images/s", [](const Result& it) { return absl::StrFormat("%.0f", it.images_per_second); });
  return Aligned(std::move(rows));
}

std::string EpochsCsv(const RunRecord& run) {
  std::string text = "epoch,steps,train_loss,train_accuracy,test_loss,test_accuracy,seconds,evaluated_on\n";
  for (const EpochPoint& epoch : run.epochs) {
    absl::StrAppend(&text, epoch.epoch, ",", epoch.steps, ",", NumberText(epoch.train_loss), ",",
                    NumberText(epoch.train_accuracy), ",", NumberText(epoch.test_loss), ",");
    absl::StrAppend(&text, NumberText(epoch.test_accuracy), ",", NumberText(epoch.seconds), ",",
                    epoch.validation ? "validation" : "test", "\n");
  }
  return text;
}

}  // namespace mtrun::report
