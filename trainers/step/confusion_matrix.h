// What a classifier's predictions come to: a confusion matrix and the figures read from it. Pure values.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::trainers {

/// Of so many classes nobody reads all: the first five guesses count too, and the screen names the worst
/// ones.
inline constexpr int kManyClasses = 21;
/// ... so many of them, and as many confusions.
inline constexpr int kMostNamed = 10;

/// One class against the rest. A ratio whose denominator is 0 is 0.
struct ClassFigures {
  double accuracy = 0, precision = 0, recall = 0, f1 = 0, specificity = 0;
};

/// Counts [actual][predicted]; rows are actual classes. Counts add up, so an evaluation split over workers is
/// exact.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int classes);
  /// From row-major counts; REQUIRES: counts.size() is a square number.
  explicit ConfusionMatrix(std::vector<int64_t> counts);

  void Add(int64_t actual, int64_t predicted, int64_t times = 1);

  int classes() const { return classes_; }
  int64_t at(int actual, int predicted) const { return counts_[actual * classes_ + predicted]; }
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t total() const;
  int64_t correct() const;
  /// Correct over total, 0 for an empty matrix.
  double Accuracy() const;
  ClassFigures Figures(int c) const;

  struct Confusion {
    int actual = 0, predicted = 0;
    int64_t count = 0;
    bool operator==(const Confusion&) const = default;
  };
  /// Classes that have samples, the one of the lowest F1 first; of equal ones the first.
  std::vector<int> WorstClasses(int most = kMostNamed) const;
  /// Pairs of different classes, the most frequent one first; none that never happened.
  std::vector<Confusion> Confusions(int most = kMostNamed) const;

 private:
  int classes_;
  std::vector<int64_t> counts_;
};

}  // namespace mtrun::trainers
