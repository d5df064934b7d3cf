// Confusion matrix of a classifier's predictions, and the figures computed from it. Pure values.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::trainers {

/// From this many classes on, the first five guesses count too, and only the worst classes are shown ...
inline constexpr int kManyClasses = 21;
/// ... at most this many of them, and as many confusions.
inline constexpr int kMaxNamed = 10;

/// Figures of one class against the rest. A ratio whose denominator is 0 is 0.
struct ClassFigures {
  double accuracy = 0, precision = 0, recall = 0, f1 = 0, specificity = 0;
};

/// Counts [actual][predicted]; rows are actual classes. Counts add up, so shared evaluations are exact.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int classes);
  /// Takes row-major counts. REQUIRES: counts.size() is a square number.
  explicit ConfusionMatrix(std::vector<int64_t> counts);

  void Add(int64_t actual, int64_t predicted, int64_t times = 1);

  int classes() const { return classes_; }
  int64_t at(int actual, int predicted) const { return counts_[actual * classes_ + predicted]; }
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t total() const;
  /// Returns the number of samples of the class; without any, its figures mean nothing.
  int64_t samples(int actual) const;
  int64_t correct() const;
  /// Returns correct over total, or 0 for an empty matrix.
  double Accuracy() const;
  ClassFigures Figures(int c) const;

  struct Confusion {
    int actual = 0, predicted = 0;
    int64_t count = 0;
    bool operator==(const Confusion&) const = default;
  };
  /// Returns classes that have samples, lowest F1 first. If equal, the lower class is first.
  std::vector<int> WorstClasses(int most = kMaxNamed) const;
  /// Returns pairs of different classes that occurred, most frequent first.
  std::vector<Confusion> Confusions(int most = kMaxNamed) const;

 private:
  int classes_;
  std::vector<int64_t> counts_;
};

}  // namespace mtrun::trainers
