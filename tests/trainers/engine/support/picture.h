// Pictures that programs draw, read back and judged by numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mtrun::engine::testing {

/// Images of one size, channels in [0, 255].
struct Pictures {
  int size = 32;
  std::vector<std::string> rgb;  // [size, size, 3] each
};

/// The first `count` images of a grid that WriteImageGrid wrote (border of 2 pixels). Fails the test when the
/// file is no such PNG.
Pictures ReadGrid(const std::string& path, int size, int64_t count);

/// Of all values of all images: how alike neighbouring pixels are (Pearson's correlation, to the right and
/// down), and the mean of each channel.
struct PictureFigures {
  double correlation = 0;
  double red = 0, green = 0, blue = 0;
};
PictureFigures FiguresOf(const Pictures& pictures);

}  // namespace mtrun::engine::testing
