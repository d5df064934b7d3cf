// The weights of antialiased bilinear resizing along one side, in integers. Internal to this folder. Pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::datasets {

/// The inputs of one output position: source positions first .. first + count - 1, with weights from `at` on.
struct Taps {
  int first = 0, count = 0;
  int64_t at = 0;
};

/// Weights are fractions of 2^kWeightBits: 255 times their sum, plus rounding, fits into 31 bits.
constexpr int kWeightBits = 22;

/// The taps and weights of all output positions in one direction.
struct Kernel {
  std::vector<Taps> taps;
  std::vector<int32_t> weights;

  const int32_t* weights_of(const Taps& taps_of_one) const { return weights.data() + taps_of_one.at; }
};

/// Returns the weights of a triangle filter as wide as the scale, but at least one pixel per side. `begin`,
/// `length`: in eighths of a pixel.
Kernel TriangleKernel(int64_t begin, int64_t length, int64_t to);

/// Weights are fractions of 2^kShortWeightBits and add up to it; 1 is stored as 2^kShortWeightBits - 1.
constexpr int kShortWeightBits = 15;

/// The same with weights of 16 bits, for many bytes per vector.
struct ShortKernel {
  std::vector<Taps> taps;
  std::vector<int16_t> weights;
  int first = 0, last = 0;  // all taps are in first .. last - 1
  int most = 0;             // taps of one position

  const int16_t* weights_of(const Taps& taps_of_one) const { return weights.data() + taps_of_one.at; }
};

/// How the positions of a kernel are made from those that are stored.
struct Doubling {
  bool doubled = false;  // two positions per stored one: colours at half the resolution
  bool smooth = false;   // then 3/4 of the nearer and 1/4 of the next stored one, as libjpeg does
  int stored = 0;        // number of stored positions, if doubled
};
/// Composes a kernel with the doubling of its inputs, so that it applies to the stored positions.
ShortKernel Compose(const Kernel& kernel, const Doubling& doubling);

}  // namespace mtrun::datasets
