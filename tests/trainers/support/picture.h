// Reads the pictures that programs draw, and computes figures of them.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace mtrun::trainers::testing {

/// Images of one size, channels in [0, 255].
struct Pictures {
  int size = 32;
  std::vector<std::string> rgb;  // [size, size, 3] each
};

/// Returns the first `count` images of a PNG of WriteImageGrid (border of 2 pixels), or fails the test.
Pictures ReadGrid(const std::string& path, int size, int64_t count);

/// Returns `count` images of independent Gaussian noise, from which samplers start.
Pictures NoisePictures(int size, int64_t count, unsigned seed);

/// Figures over all values of all images: the similarity of neighbouring pixels (Pearson's correlation, to
/// the right and down), and mean and standard deviation of red, green and blue.
struct PictureFigures {
  double correlation = 0;
  std::array<double, 3> means = {}, deviations = {};
};
PictureFigures FiguresOf(const Pictures& pictures);
/// Prints "correlation 0.93, means 126 123 114, deviations 62 62 66".
std::ostream& operator<<(std::ostream& out, const PictureFigures& figures);

}  // namespace mtrun::trainers::testing
