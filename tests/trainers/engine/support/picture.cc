#include "tests/trainers/engine/support/picture.h"

#include <zlib.h>

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/trainers/engine/support/big_endian.h"

namespace mtrun::engine::testing {
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

PictureFigures FiguresOf(const Pictures& pictures) {
  const auto size = static_cast<size_t>(pictures.size);
  double n = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0, channels[3] = {};
  const auto pair = [&](double x, double y) {
    n += 1, a += x, b += y, aa += x * x, bb += y * y, ab += x * y;
  };
  for (const std::string& image : pictures.rgb) {
    const auto value = [&](size_t y, size_t x, size_t c) {
      return static_cast<double>(static_cast<uint8_t>(image[(y * size + x) * 3 + c]));
    };
    for (size_t y = 0; y < size; ++y) {
      for (size_t x = 0; x < size; ++x) {
        for (size_t c = 0; c < 3; ++c) {
          channels[c] += value(y, x, c);
          if (x + 1 < size) pair(value(y, x, c), value(y, x + 1, c));
          if (y + 1 < size) pair(value(y, x, c), value(y + 1, x, c));
        }
      }
    }
  }
  const double count = static_cast<double>(pictures.rgb.size() * size * size);
  const double covariance = ab / n - a / n * (b / n);
  const double deviations = std::sqrt((aa / n - a / n * (a / n)) * (bb / n - b / n * (b / n)));
  return {covariance / deviations, channels[0] / count, channels[1] / count, channels[2] / count};
}

}  // namespace mtrun::engine::testing
