#include "tests/trainers/support/picture.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "datasets/images/png.h"
#include "tests/support/program.h"

namespace mtrun::trainers::testing {
namespace {

/// Computes mean, variance and covariance of a stream of pairs.
class Moments {
 public:
  void Add(double x, double y) { n_ += 1, x_ += x, y_ += y, xx_ += x * x, yy_ += y * y, xy_ += x * y; }
  double mean() const { return x_ / n_; }
  double deviation() const { return std::sqrt(xx_ / n_ - mean() * mean()); }
  double correlation() const {
    const double other = y_ / n_;
    return (xy_ / n_ - mean() * other) / (deviation() * std::sqrt(yy_ / n_ - other * other));
  }

 private:
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, yy_ = 0, xy_ = 0;
};

double Rounded(double value, double unit) { return std::round(value / unit) * unit; }

}  // namespace

Pictures ReadGrid(const std::string& path, int size, int64_t count) {
  constexpr int kBorder = 2;
  Pictures pictures{.size = size, .rgb = {}};
  const auto png = datasets::DecodePng(support::ReadText(path));
  EXPECT_TRUE(png.ok()) << path << ": " << png.status();
  if (!png.ok()) return pictures;
  const auto width = static_cast<size_t>(png->size.width);
  const int64_t columns = (png->size.width - kBorder) / (size + kBorder);
  EXPECT_GT(columns, 0) << path;
  for (int64_t i = 0; i < count && columns > 0; ++i) {
    const auto left = static_cast<size_t>(kBorder + i % columns * (size + kBorder));
    const auto top = static_cast<size_t>(kBorder + i / columns * (size + kBorder));
    std::string image;
    for (size_t y = top; y < top + static_cast<size_t>(size); ++y) {
      const size_t begin = 3 * (y * width + left), bytes = 3 * static_cast<size_t>(size);
      EXPECT_LE(begin + bytes, png->pixels.size()) << path;
      if (begin + bytes > png->pixels.size()) return pictures;
      image.append(reinterpret_cast<const char*>(png->pixels.data()) + begin, bytes);
    }
    pictures.rgb.push_back(std::move(image));
  }
  return pictures;
}

Pictures NoisePictures(int size, int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Pictures pictures{.size = size, .rgb = {}};
  for (int64_t i = 0; i < count; ++i) {
    std::string image(static_cast<size_t>(size * size * 3), '\0');
    for (char& value : image) {
      const double level = std::clamp(std::round((normal(generator) + 1) * 127.5), 0.0, 255.0);
      value = static_cast<char>(static_cast<uint8_t>(level));
    }
    pictures.rgb.push_back(std::move(image));
  }
  return pictures;
}

PictureFigures FiguresOf(const Pictures& pictures) {
  const auto size = static_cast<size_t>(pictures.size);
  Moments neighbours, channels[3];
  for (const std::string& image : pictures.rgb) {
    const auto value = [&](size_t y, size_t x, size_t c) {
      return static_cast<double>(static_cast<uint8_t>(image[(y * size + x) * 3 + c]));
    };
    for (size_t i = 0; i < size * size * 3; ++i) {
      const size_t y = i / 3 / size, x = i / 3 % size, c = i % 3;
      channels[c].Add(value(y, x, c), 0);
      if (x + 1 < size) neighbours.Add(value(y, x, c), value(y, x + 1, c));
      if (y + 1 < size) neighbours.Add(value(y, x, c), value(y + 1, x, c));
    }
  }
  PictureFigures figures{.correlation = neighbours.correlation()};
  for (size_t c = 0; c < 3; ++c) {
    figures.means[c] = channels[c].mean();
    figures.deviations[c] = channels[c].deviation();
  }
  return figures;
}

std::ostream& operator<<(std::ostream& out, const PictureFigures& figures) {
  out << "correlation " << Rounded(figures.correlation, 0.001) << ", means";
  for (const double mean : figures.means) out << " " << Rounded(mean, 1);
  out << ", deviations";
  for (const double deviation : figures.deviations) out << " " << Rounded(deviation, 1);
  return out;
}

}  // namespace mtrun::trainers::testing
