#include "report/result_file.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::report {
namespace {

constexpr int64_t kLossEvery = 512;

double PercentOf(std::optional<double> share) { return share ? 100 * *share : NAN; }

/// Returns the losses of an epoch's steps, then its accuracies.
std::string EpochLines(const RunRecord& run) {
  std::string out;
  double total = 0, best = -1;
  int64_t first = 0;
  for (const EpochPoint& epoch : run.epochs) {
    for (const StepPoint& step : run.steps) {
      if (step.step < first || step.step >= epoch.steps || (step.step - first + 1) % kLossEvery != 0)
        continue;
      absl::StrAppendFormat(&out, "Epoch %d, step %d, loss %.4f\n", epoch.epoch, step.step - first + 1,
                            step.loss);
    }
    first = epoch.steps;
    total += std::isfinite(epoch.seconds) ? epoch.seconds : 0;
    absl::StrAppendFormat(&out, "Epoch %d: ", epoch.epoch);
    const char* const on = epoch.validation ? "validation" : "test";
    if (epoch.test_accuracy) {
      absl::StrAppendFormat(&out, "train accuracy %.2f %%, %s accuracy %.2f %%",
                            PercentOf(epoch.train_accuracy), on, PercentOf(epoch.test_accuracy));
    } else {
      absl::StrAppendFormat(&out, "train loss %.4f, %s loss %.4f", epoch.train_loss, on, epoch.test_loss);
    }
    absl::StrAppendFormat(&out, ", %.2f s, %.2f s in all\n", epoch.seconds, total);
    if (epoch.test_accuracy && *epoch.test_accuracy > best) {
      best = *epoch.test_accuracy;
      absl::StrAppendFormat(&out, "New best accuracy: %.2f %%\n", 100 * best);
    }
  }
  return out;
}

/// Computes the one-vs-rest accuracy of each class, as in the original format.
std::vector<double> AccuraciesOf(const Result& result) {
  const size_t classes = result.classes.size();
  std::vector<double> rows(classes), columns(classes), accuracies(classes);
  for (size_t actual = 0; actual < result.confusion.size(); ++actual) {
    for (size_t predicted = 0; predicted < result.confusion.size(); ++predicted) {
      const auto count = static_cast<double>(result.confusion[actual][predicted]);
      rows[actual] += count;
      columns[predicted] += count;
    }
  }
  const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
  if (all == 0) return accuracies;
  for (size_t c = 0; c < result.confusion.size(); ++c) {
    const auto hits = static_cast<double>(result.confusion[c][c]);
    accuracies[c] = (all - rows[c] - columns[c] + 2 * hits) / all;
  }
  return accuracies;
}

std::string ClassLines(const Result& result) {
  std::string out;
  const std::vector<double> accuracies = AccuraciesOf(result);
  for (size_t c = 0; c < result.classes.size(); ++c) {
    const ClassRow& row = result.classes[c];
    if (result.IsUntested(row)) {
      absl::StrAppend(&out, row.name, ": no images\n");
      continue;
    }
    absl::StrAppendFormat(
        &out, "%s: accuracy %.2f %%, precision %.2f %%, recall %.2f %%, F1 %.2f %%, specificity %.2f %%\n",
        row.name, 100 * accuracies[c], 100 * row.precision, 100 * row.recall, 100 * row.f1,
        100 * row.specificity);
  }
  return out;
}

std::string MatrixLines(const Result& result) {
  if (result.confusion.empty()) return "";
  std::string out = "Confusion matrix (rows actual, columns predicted):\n";
  for (const auto& row : result.confusion) {
    for (const int64_t count : row) absl::StrAppendFormat(&out, "%7d", count);
    out += "\n";
  }
  return out;
}

}  // namespace

std::string ResultFileName(const Result& result) {
  const int64_t nodes = std::max<int64_t>(1, result.nodes);
  return absl::StrFormat("%d_%d_%d_%d.txt", result.micro_batch, result.epochs, nodes,
                         std::max<int64_t>(1, result.world / nodes));
}

std::string ResultFileText(const RunRecord& run, const Result& result) {
  std::string out = absl::StrCat(EpochLines(run), "\n", ClassLines(result));
  if (result.best_accuracy) {
    absl::StrAppendFormat(&out, "Accuracy plot: accuracy_plot.png\nBest accuracy: %.2f %%\n",
                          100 * *result.best_accuracy);
  }
  absl::StrAppendFormat(&out, "Total time: %.2f s\n", result.seconds);
  return out + MatrixLines(result);
}

}  // namespace mtrun::report
