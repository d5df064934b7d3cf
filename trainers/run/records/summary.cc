#include "trainers/run/records/summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/terminal.h"

namespace mtrun::trainers {
namespace {

constexpr int kUsualColumns = 80, kLeastColumns = 64;
constexpr int kLeastName = 6;

std::string SummaryPercent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

std::string Padded(const std::string& text, int width) {
  const std::string clipped = ClipColumns(text, static_cast<size_t>(width));
  return clipped + std::string(static_cast<size_t>(width) - ColumnsOf(clipped), ' ');
}

int LongestName(const RunReport& r) {
  size_t longest = kLeastName;
  for (const std::string& name : r.class_names) longest = std::max(longest, ColumnsOf(name));
  return static_cast<int>(longest);
}

std::string SummaryResults(const RunReport& r) {
  const std::string chosen = !r.chosen_by_validation ? ""
                             : r.tested_epoch > 0    ? ", by validation: its weights were tested"
                                                     : ", by validation; the final weights were tested";
  if (r.class_names.empty()) {
    return absl::StrFormat("test loss      %.4f\nbest loss      %.4f in epoch %d%s\n", r.test_loss,
                           r.best_loss, r.best_epoch, chosen);
  }
  const std::string top5 = r.test_top5 ? absl::StrCat(", top-5 ", SummaryPercent(*r.test_top5)) : "";
  return absl::StrFormat("test accuracy  %s%s, loss %.4f, %d images\nbest accuracy  %s in epoch %d%s\n",
                         SummaryPercent(r.matrix.Accuracy()), top5, r.test_loss, r.matrix.total(),
                         SummaryPercent(r.best_accuracy), r.best_epoch, chosen);
}

std::string Head(const RunReport& r) {
  std::string text = absl::StrCat(r.program, "\n", SummaryResults(r), "trained        ",
                                  Counted(r.epochs, "epoch"), ", ", Counted(r.steps, "step"), " of ",
                                  r.global_batch, " in micro-batches of ", r.micro_batch, "\n");
  absl::StrAppendFormat(
      &text, "workers        %d on %s, %.0f images/s\ntook           %s, of which %s training\n",
      r.world_size, Counted(r.nodes, "node"), r.images_per_second, HumanDuration(FromSeconds(r.seconds)),
      HumanDuration(FromSeconds(r.training_seconds)));
  return text;
}

int Digits(int64_t number) { return static_cast<int>(absl::StrCat(number).size()); }

int64_t MostInMatrix(const ConfusionMatrix& matrix) {
  const auto& counts = matrix.counts();
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

/// Column widths of the matrix.
struct Layout {
  bool counts = true;    // false: each row in percent
  bool decimals = true;  // in the figures beside it
  int name = 0, cell = 0, figure = 0;
  int width(int classes) const { return name + classes * cell + 3 * figure; }
};

Layout LayoutFor(const RunReport& r, int columns) {
  const int classes = r.matrix.classes();
  const int name = LongestName(r) + 3;  // "12 truck"
  const int counts = std::max(Digits(MostInMatrix(r.matrix)), Digits(classes)) + 1;
  const Layout layouts[] = {{true, true, name, counts, 8},  {true, true, name, counts, 7},
                            {true, false, name, counts, 5}, {false, true, name, 4, 7},
                            {false, false, name, 4, 5},     {false, false, name, 3, 4}};
  for (const Layout& layout : layouts) {
    if (layout.width(classes) <= columns) return layout;
  }
  Layout last = layouts[5];
  last.name = std::max(kLeastName, columns - (last.width(classes) - last.name));
  return last;
}

std::string Cell(const ConfusionMatrix& matrix, int actual, int predicted, int64_t images, const Layout& at) {
  const int64_t count = matrix.at(actual, predicted);
  const int64_t number = at.counts || images == 0 ? count : (200 * count + images) / (2 * images);
  return absl::StrFormat("%*s", at.cell, count == 0 ? "." : absl::StrCat(number));
}

std::string Figure(double fraction, const Layout& layout) {
  return absl::StrFormat("%*.*f", layout.figure, layout.decimals ? 1 : 0, 100 * fraction);
}

std::string Matrix(const RunReport& r, int columns) {
  const Layout layout = LayoutFor(r, columns);
  const int classes = r.matrix.classes();
  std::string text = absl::StrCat("\nrows actual, columns predicted",
                                  layout.counts ? "" : " (percent of the row)", "; figures in percent\n");
  absl::StrAppend(&text, std::string(static_cast<size_t>(layout.name), ' '));
  for (int c = 0; c < classes; ++c) absl::StrAppendFormat(&text, "%*d", layout.cell, c);
  const bool words = layout.figure >= 7;
  absl::StrAppendFormat(&text, "%*s%*s%*s\n", layout.figure, words ? "recall" : "rec", layout.figure,
                        words ? "prec." : "pre", layout.figure, "F1");
  for (int actual = 0; actual < classes; ++actual) {
    const int64_t images = r.matrix.samples(actual);
    absl::StrAppend(&text, Padded(absl::StrFormat("%2d %s", actual, r.class_names[actual]), layout.name));
    for (int c = 0; c < classes; ++c) absl::StrAppend(&text, Cell(r.matrix, actual, c, images, layout));
    const ClassFigures f = r.matrix.Figures(actual);
    absl::StrAppend(&text,
                    images == 0 ? absl::StrFormat("%*s", 3 * layout.figure, kNoImages)
                                : absl::StrCat(Figure(f.recall, layout), Figure(f.precision, layout),
                                               Figure(f.f1, layout)),
                    "\n");
  }
  return text;
}

/// Returns the class that images of `actual` are most often taken for, "-" if there is none.
std::string TakenFor(const RunReport& r, int actual) {
  int most = -1;
  for (int c = 0; c < r.matrix.classes(); ++c) {
    if (c == actual || r.matrix.at(actual, c) == 0) continue;
    if (most < 0 || r.matrix.at(actual, c) > r.matrix.at(actual, most)) most = c;
  }
  return most < 0 ? "-" : absl::StrCat(r.class_names[most], " (", r.matrix.at(actual, most), ")");
}

std::string WorstClasses(const RunReport& r, int columns) {
  const std::vector<int> order = r.matrix.WorstClasses();
  constexpr int kFigures = 3 * 8 + 2;
  const int name = std::min(LongestName(r), (columns - kFigures) / 2 - 1);
  std::string text = absl::StrFormat(
      "\nthe %d worst of %d classes, in percent (report.txt has all of them)\n%s  recall   "
      "prec.      F1  most often taken for\n",
      order.size(), r.matrix.classes(), Padded("class", name));
  for (const int c : order) {
    const ClassFigures f = r.matrix.Figures(c);
    const std::string row = absl::StrFormat("%s%8.1f%8.1f%8.1f  %s", Padded(r.class_names[c], name),
                                            100 * f.recall, 100 * f.precision, 100 * f.f1, TakenFor(r, c));
    absl::StrAppend(&text, ClipColumns(row, static_cast<size_t>(columns)), "\n");
  }
  return text;
}

std::string Confusions(const RunReport& r, int columns) {
  constexpr int kFigures = 2 * 2 + 8;
  const int name = std::min(LongestName(r), (columns - kFigures) / 2);
  std::string text = "\nthe most frequent confusions\n";
  absl::StrAppend(&text, Padded("actual", name), "  ", Padded("predicted", std::max(name, 9)),
                  "    images\n");
  for (const ConfusionMatrix::Confusion& c : r.matrix.Confusions()) {
    absl::StrAppendFormat(&text, "%s  %s  %8d\n", Padded(r.class_names[c.actual], name),
                          Padded(r.class_names[c.predicted], std::max(name, 9)), c.count);
  }
  return text;
}

}  // namespace

std::string ClassesText(const RunReport& report, int columns) {
  if (report.class_names.empty() || report.matrix.classes() == 0) return "";
  columns = columns == 0 ? kUsualColumns : std::max(columns, kLeastColumns);
  return report.matrix.classes() < kManyClasses  // their confusions fit a screen
             ? Matrix(report, columns)
             : WorstClasses(report, columns) + Confusions(report, columns);
}

std::string SummaryText(const RunReport& report, int columns) {
  return Head(report) + ClassesText(report, columns);
}

}  // namespace mtrun::trainers
