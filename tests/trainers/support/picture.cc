#include "tests/trainers/support/picture.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/trainers/support/big_endian.h"

namespace mtrun::trainers::testing {
namespace {

struct Png {
  size_t width = 0, height = 0;
  std::string rows;  // each with its filter type in front
};

/// What EncodePng writes: eight bits, three channels, rows without a filter.
Png ReadPng(const std::string& path) {
  const std::string file = support::ReadText(path);
  Png png;
  EXPECT_GT(file.size(), 45u) << path;
  if (file.size() <= 45) return png;
  png.width = BigEndian(file, 16);
  png.height = BigEndian(file, 20);
  std::string packed;
  for (size_t at = 8; at + 12 <= file.size(); at += 12 + BigEndian(file, at)) {
    if (file.compare(at + 4, 4, "IDAT") == 0) packed += file.substr(at + 8, BigEndian(file, at));
  }
  png.rows.resize(png.height * (1 + 3 * png.width));
  uLongf size = png.rows.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(png.rows.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK)
      << path;
  EXPECT_EQ(size, png.rows.size()) << path;
  return png;
}

/// Mean, variance and covariance of pairs of numbers as they come.
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
  const Png png = ReadPng(path);
  const size_t stride = 1 + 3 * png.width;
  const int64_t columns = (static_cast<int64_t>(png.width) - kBorder) / (size + kBorder);
  Pictures pictures{.size = size, .rgb = {}};
  EXPECT_GT(columns, 0) << path;
  for (int64_t i = 0; i < count && columns > 0; ++i) {
    const auto left = static_cast<size_t>(kBorder + i % columns * (size + kBorder));
    const auto top = static_cast<size_t>(kBorder + i / columns * (size + kBorder));
    std::string image;
    for (size_t y = top; y < top + static_cast<size_t>(size); ++y) {
      EXPECT_LT(y, png.height) << path;
      EXPECT_EQ(png.rows.at(y * stride), 0) << "a filtered row";
      image += png.rows.substr(y * stride + 1 + 3 * left, 3 * static_cast<size_t>(size));
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
