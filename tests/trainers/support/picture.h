// Pictures that programs draw, read back and judged by numbers.
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

/// The first `count` images of a grid that WriteImageGrid wrote (border of 2 pixels). Fails the test when the
/// file is no such PNG.
Pictures ReadGrid(const std::string& path, int size, int64_t count);

/// `count` images of independent Gaussian noise, as samplers begin with it.
Pictures NoisePictures(int size, int64_t count, unsigned seed);

/// Of all values of all images: how alike neighbouring pixels are (Pearson's correlation, to the right and
/// down), and mean and standard deviation of red, green and blue.
struct PictureFigures {
  double correlation = 0;
  std::array<double, 3> means = {}, deviations = {};
};
PictureFigures FiguresOf(const Pictures& pictures);
/// "correlation 0.93, means 126 123 114, deviations 62 62 66".
std::ostream& operator<<(std::ostream& out, const PictureFigures& figures);

}  // namespace mtrun::trainers::testing
