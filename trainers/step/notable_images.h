// The test images that say most about a classifier: its most confident mistakes, and the images of which it
// is least certain. Independent of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::trainers {

/// The most probable class of an image.
struct Guess {
  int64_t image = 0;  // its number in the split
  int32_t label = 0, guess = 0;
  double probability = 0;  // of the guess
  bool operator==(const Guess&) const = default;
};

/// Holds at most kMost of each kind. What is left of all images does not depend on how they are divided among
/// workers.
class NotableImages {
 public:
  static constexpr size_t kMost = 24;

  /// Ignores a guess whose probability is not finite.
  void Add(const Guess& guess);
  void Add(const NotableImages& others);

  /// Wrong guesses, the most probable first.
  const std::vector<Guess>& mistakes() const { return mistakes_; }
  /// Right and wrong guesses, the least probable first.
  const std::vector<Guess>& uncertain() const { return uncertain_; }
  bool empty() const { return uncertain_.empty(); }

  /// Returns it as kNumbers numbers, for a sum with the zeros of other workers.
  std::vector<int64_t> ToNumbers() const;
  /// Returns kDataLoss for numbers that are not from ToNumbers.
  static absl::StatusOr<NotableImages> FromNumbers(absl::Span<const int64_t> numbers);
  static constexpr size_t kNumbers = 2 * (1 + 4 * kMost);
  bool operator==(const NotableImages&) const = default;

 private:
  std::vector<Guess> mistakes_, uncertain_;  // in order
};

}  // namespace mtrun::trainers
