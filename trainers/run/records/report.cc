#include "trainers/run/records/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

std::string Percent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

using Rows = std::vector<std::pair<std::string, std::string>>;

/// Returns lines `name  value`, with names padded to the longest.
std::string TwoColumns(const Rows& rows) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  std::string text;
  for (const auto& [name, value] : rows)
    absl::StrAppendFormat(&text, "%-*s  %s\n", static_cast<int>(width), name, value);
  return text;
}

int NameWidth(const RunReport& r) {
  size_t width = 5;
  for (const auto& name : r.class_names) width = std::max(width, name.size());
  return static_cast<int>(width);
}

Rows Results(const RunReport& r) {
  if (r.class_names.empty()) {
    return {{"test loss", absl::StrFormat("%.4f", r.test_loss)},
            {"best loss", absl::StrFormat("%.4f in epoch %d", r.best_loss, r.best_epoch)}};
  }
  Rows rows = {{"test accuracy", Percent(r.matrix.Accuracy())},
               {"best accuracy", absl::StrFormat("%s in epoch %d%s", Percent(r.best_accuracy), r.best_epoch,
                                                 r.chosen_by_validation ? " on the validation images" : "")},
               {"test loss", absl::StrFormat("%.4f", r.test_loss)},
               {"test images", absl::StrCat(r.matrix.total())}};
  if (r.test_top5) rows.insert(rows.begin() + 1, {"top-5 accuracy", Percent(*r.test_top5)});
  return rows;
}

std::string Summary(const RunReport& r) {
  Rows rows = Results(r);
  if (r.chosen_by_validation)
    rows.emplace_back("tested weights",
                      r.tested_epoch > 0 ? absl::StrCat("of epoch ", r.tested_epoch) : "the final ones");
  rows.insert(rows.end(),
              {{"epochs", absl::StrCat(r.epochs)},
               {"steps", absl::StrCat(r.steps)},
               {"batch", absl::StrFormat("%d in micro-batches of %d", r.global_batch, r.micro_batch)},
               {"workers", absl::StrCat(r.world_size, " on ", Counted(r.nodes, "node"))},
               {"seconds", absl::StrFormat("%.1f, of which %.1f training", r.seconds, r.training_seconds)},
               {"images/s", absl::StrFormat("%.0f", r.images_per_second)}});
  return TwoColumns(rows);
}

std::string PerClass(const RunReport& r) {
  const int width = NameWidth(r);
  std::string text = absl::StrFormat("%-*s   recall  precision       f1  specificity\n", width, "class");
  for (int c = 0; c < r.matrix.classes(); ++c) {
    if (r.matrix.samples(c) == 0) {
      absl::StrAppendFormat(&text, "%-*s  %s\n", width, r.class_names[c], kNoImages);
      continue;
    }
    const ClassFigures f = r.matrix.Figures(c);
    absl::StrAppendFormat(&text, "%-*s  %7s  %9s  %7s  %11s\n", width, r.class_names[c], Percent(f.recall),
                          Percent(f.precision), Percent(f.f1), Percent(f.specificity));
  }
  return text;
}

/// Maximum line length of the confusion matrix. If names make it longer, its columns are numbered instead.
constexpr int kMaxLine = 110;

std::string MatrixText(const RunReport& r) {
  const int classes = r.matrix.classes();
  const bool numbered = (NameWidth(r) + 2) * (classes + 1) > kMaxLine;
  const int column = numbered ? 5 : std::max(6, NameWidth(r));
  const int row = numbered ? NameWidth(r) + 4 : NameWidth(r);
  const auto row_name = [&](int c) {
    return numbered ? absl::StrFormat("%3d %s", c, r.class_names[c]) : r.class_names[c];
  };
  std::string text = "confusion matrix (rows actual, columns predicted)\n";
  absl::StrAppendFormat(&text, "%-*s", row, "");
  for (int c = 0; c < classes; ++c) {
    absl::StrAppendFormat(&text, "  %*s", column, numbered ? absl::StrCat(c) : r.class_names[c]);
  }
  for (int actual = 0; actual < classes; ++actual) {
    absl::StrAppendFormat(&text, "\n%-*s", row, row_name(actual));
    for (int p = 0; p < classes; ++p) absl::StrAppendFormat(&text, "  %*d", column, r.matrix.at(actual, p));
  }
  return text + "\n";
}

std::string ConfusionsText(const RunReport& r) {
  const int width = std::max(NameWidth(r), 9);  // "predicted"
  std::string text = absl::StrFormat("the %d most frequent confusions\n%-*s  %-*s  images\n", kMaxNamed,
                                     width, "actual", width, "predicted");
  for (const ConfusionMatrix::Confusion& c : r.matrix.Confusions()) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %6d\n", width, r.class_names[c.actual], width,
                          r.class_names[c.predicted], c.count);
  }
  return text;
}

/// Adds the worst classes by name, so that readers do not have to sort a large matrix.
void AddWorst(const RunReport& r, nlohmann::json& json) {
  for (const int c : r.matrix.WorstClasses()) json["worst_classes"].push_back(r.class_names[c]);
  for (const ConfusionMatrix::Confusion& c : r.matrix.Confusions()) {
    json["confusions"].push_back({{"actual", r.class_names[c.actual]},
                                  {"predicted", r.class_names[c.predicted]},
                                  {"images", c.count}});
  }
}

}  // namespace

bool RunReport::Add(const EvalRecord& record) {
  const bool better = record.classified ? record.test_accuracy > best_accuracy : record.test_loss < best_loss;
  const bool new_best = history.empty() || better;
  if (new_best) {
    best_accuracy = record.test_accuracy;
    best_loss = record.test_loss;
    best_epoch = record.epoch;
    best_steps = record.steps;
  }
  test_loss = record.test_loss;
  test_top5 = record.test_top5;
  epochs = record.epoch;
  chosen_by_validation = record.validation;
  if (!history.empty() && history.back().epoch == record.epoch) {  // its figures include the earlier part's
    training_seconds -= history.back().seconds;
    history.pop_back();
  }
  training_seconds += record.seconds;
  history.push_back(record);
  return new_best;
}

std::string ReportText(const RunReport& r) {
  const std::string summary = absl::StrCat(r.program, "\n", Summary(r));
  if (r.class_names.empty()) return summary;
  const bool many = r.matrix.classes() >= kManyClasses;
  return absl::StrCat(summary, "\n", PerClass(r), "\n", many ? ConfusionsText(r) : MatrixText(r));
}

nlohmann::json ReportJson(const RunReport& r) {
  nlohmann::json json = {
      {"program", r.program},
      {"best_loss", r.best_loss},
      {"best_epoch", r.best_epoch},
      {"chosen_by_validation", r.chosen_by_validation},
      {"tested_epoch", r.tested_epoch > 0 ? nlohmann::json(r.tested_epoch) : nlohmann::json(nullptr)},
      {"test_loss", r.test_loss},
      {"epochs", r.epochs},
      {"steps", r.steps},
      {"global_batch", r.global_batch},
      {"micro_batch", r.micro_batch},
      {"world_size", r.world_size},
      {"nodes", r.nodes},
      {"seconds", r.seconds},
      {"training_seconds", r.training_seconds},
      {"images_per_second", r.images_per_second},
      {"class_names", r.class_names},
      {"per_class", nlohmann::json::array()},
      {"confusion_rows_actual", nlohmann::json::array()},
      {"history", nlohmann::json::array()},
  };
  for (const EvalRecord& e : r.history) json["history"].push_back(nlohmann::json::parse(ToLine(e)));
  if (r.class_names.empty()) return json;
  json["test_accuracy"] = r.matrix.Accuracy();
  json["best_accuracy"] = r.best_accuracy;
  if (r.test_top5) json["test_top5"] = *r.test_top5;
  if (r.matrix.classes() >= kManyClasses) AddWorst(r, json);
  const auto& counts = r.matrix.counts();
  for (int c = 0; c < r.matrix.classes(); ++c) {
    const int64_t images = r.matrix.samples(c);
    const ClassFigures f = r.matrix.Figures(c);
    const auto figure = [&](double value) {
      return images > 0 ? nlohmann::json(value) : nlohmann::json(nullptr);
    };
    json["per_class"].push_back({{"images", images},
                                 {"accuracy", figure(f.accuracy)},
                                 {"precision", figure(f.precision)},
                                 {"recall", figure(f.recall)},
                                 {"f1", figure(f.f1)},
                                 {"specificity", figure(f.specificity)}});
    const auto row = counts.begin() + static_cast<std::ptrdiff_t>(c) * r.matrix.classes();
    json["confusion_rows_actual"].push_back(std::vector<int64_t>(row, row + r.matrix.classes()));
  }
  return json;
}

std::string EpochText(const EvalRecord& e, int64_t epochs, bool new_best, int columns) {
  const auto line = [&](bool brief) {
    const auto figures = [&](double loss, double accuracy) {
      const std::string text = brief ? absl::StrFormat("%.3f", loss) : absl::StrFormat("loss %.4f", loss);
      return e.classified ? absl::StrCat(text, brief ? " " : " accuracy ", Percent(accuracy)) : text;
    };
    const char* const best = brief ? "  best" : "  new best";
    return absl::StrFormat("epoch %d/%d  train %s  %s %s%s  %.1f s", e.epoch, epochs,
                           figures(e.train_loss, e.train_accuracy), e.validation ? "val" : "test",
                           figures(e.test_loss, e.test_accuracy), new_best ? best : "", e.seconds);
  };
  const std::string text = line(/*brief=*/false);
  return columns == 0 || text.size() <= static_cast<size_t>(columns) ? text : line(/*brief=*/true);
}

absl::Status WriteReport(const RunReport& report, const std::string& folder) {
  MT_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/report.txt"), ReportText(report)));
  return WriteFileAtomically(absl::StrCat(folder, "/report.json"), ReportJson(report).dump(1) + "\n");
}

}  // namespace mtrun::trainers
