#include "trainers/step/notable_images.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

bool IsMoreConfident(const Guess& a, const Guess& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.image < b.image;
}
bool IsLessCertain(const Guess& a, const Guess& b) {
  return a.probability != b.probability ? a.probability < b.probability : a.image < b.image;
}

template <typename Order>
void Insert(const Guess& guess, const Order& order, std::vector<Guess>& list) {
  if (list.size() == NotableImages::kMost && !order(guess, list.back())) return;
  list.insert(std::upper_bound(list.begin(), list.end(), guess, order), guess);
  if (list.size() > NotableImages::kMost) list.pop_back();
}

/// Appends the length, and four numbers for each of kMost guesses.
void Append(const std::vector<Guess>& list, std::vector<int64_t>& numbers) {
  numbers.push_back(static_cast<int64_t>(list.size()));
  for (const Guess& guess : list)
    numbers.insert(numbers.end(),
                   {guess.image, guess.label, guess.guess, std::bit_cast<int64_t>(guess.probability)});
  numbers.resize(numbers.size() + 4 * (NotableImages::kMost - list.size()));
}

bool Take(absl::Span<const int64_t> numbers, std::vector<Guess>& list) {
  if (numbers[0] < 0 || numbers[0] > static_cast<int64_t>(NotableImages::kMost)) return false;
  for (size_t i = 0; i < static_cast<size_t>(numbers[0]); ++i) {
    const absl::Span<const int64_t> of = numbers.subspan(1 + 4 * i, 4);
    list.push_back(
        {of[0], static_cast<int32_t>(of[1]), static_cast<int32_t>(of[2]), std::bit_cast<double>(of[3])});
  }
  return true;
}

}  // namespace

void NotableImages::Add(const Guess& guess) {
  if (!std::isfinite(guess.probability)) return;
  if (guess.guess != guess.label) Insert(guess, IsMoreConfident, mistakes_);
  Insert(guess, IsLessCertain, uncertain_);
}

void NotableImages::Add(const NotableImages& others) {
  for (const Guess& guess : others.mistakes_) Insert(guess, IsMoreConfident, mistakes_);
  for (const Guess& guess : others.uncertain_) Insert(guess, IsLessCertain, uncertain_);
}

std::vector<int64_t> NotableImages::ToNumbers() const {
  std::vector<int64_t> numbers;
  Append(mistakes_, numbers);
  Append(uncertain_, numbers);
  return numbers;
}

absl::StatusOr<NotableImages> NotableImages::FromNumbers(absl::Span<const int64_t> numbers) {
  NotableImages images;
  const bool fits = numbers.size() == kNumbers && Take(numbers.first(kNumbers / 2), images.mistakes_) &&
                    Take(numbers.last(kNumbers / 2), images.uncertain_);
  if (!fits) return absl::DataLossError(absl::StrCat("a list of images of ", numbers.size(), " numbers"));
  return images;
}

}  // namespace mtrun::trainers
