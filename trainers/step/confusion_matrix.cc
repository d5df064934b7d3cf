#include "trainers/step/confusion_matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

double Ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(int classes) : classes_(classes), counts_(classes * classes, 0) {}

ConfusionMatrix::ConfusionMatrix(std::vector<int64_t> counts)
    : classes_(static_cast<int>(std::lround(std::sqrt(static_cast<double>(counts.size()))))),
      counts_(std::move(counts)) {
  MT_CHECK(static_cast<size_t>(classes_) * classes_ == counts_.size()) << counts_.size() << " counts";
}

void ConfusionMatrix::Add(int64_t actual, int64_t predicted, int64_t times) {
  MT_CHECK(actual >= 0 && actual < classes_ && predicted >= 0 && predicted < classes_)
      << "actual " << actual << " predicted " << predicted << " of " << classes_;
  counts_[actual * classes_ + predicted] += times;
}

int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

int64_t ConfusionMatrix::samples(int actual) const {
  const auto row = counts_.begin() + static_cast<std::ptrdiff_t>(actual) * classes_;
  return std::accumulate(row, row + classes_, int64_t{0});
}

int64_t ConfusionMatrix::correct() const {
  int64_t sum = 0;
  for (int c = 0; c < classes_; ++c) sum += at(c, c);
  return sum;
}

double ConfusionMatrix::Accuracy() const { return Ratio(correct(), total()); }

ClassFigures ConfusionMatrix::Figures(int c) const {
  int64_t row = 0, column = 0;
  for (int other = 0; other < classes_; ++other) {
    row += at(c, other);
    column += at(other, c);
  }
  const int64_t tp = at(c, c), fp = column - tp, fn = row - tp, tn = total() - tp - fp - fn;
  ClassFigures f;
  f.accuracy = Ratio(tp + tn, tp + tn + fp + fn);
  f.precision = Ratio(tp, tp + fp);
  f.recall = Ratio(tp, tp + fn);
  f.f1 = f.precision + f.recall == 0 ? 0.0 : 2 * f.precision * f.recall / (f.precision + f.recall);
  f.specificity = Ratio(tn, tn + fp);
  return f;
}

std::vector<int> ConfusionMatrix::WorstClasses(int most) const {
  std::vector<std::pair<double, int>> scores;
  for (int c = 0; c < classes_; ++c) {
    if (samples(c) > 0) scores.emplace_back(Figures(c).f1, c);
  }
  std::sort(scores.begin(), scores.end());
  scores.resize(std::min(scores.size(), static_cast<size_t>(most)));
  std::vector<int> worst;
  for (const auto& [score, c] : scores) worst.push_back(c);
  return worst;
}

std::vector<ConfusionMatrix::Confusion> ConfusionMatrix::Confusions(int most) const {
  std::vector<Confusion> all;
  for (int actual = 0; actual < classes_; ++actual) {
    for (int predicted = 0; predicted < classes_; ++predicted) {
      if (actual != predicted && at(actual, predicted) > 0)
        all.push_back({actual, predicted, at(actual, predicted)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Confusion& a, const Confusion& b) { return a.count > b.count; });
  all.resize(std::min(all.size(), static_cast<size_t>(most)));
  return all;
}

}  // namespace mtrun::trainers
