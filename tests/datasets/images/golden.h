// The pictures in tests/testdata/images, which make_images.py there made with Pillow.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/posix.h"
#include "datasets/images/image.h"
#include "datasets/images/png.h"
#include "gtest/gtest.h"

namespace mtrun::datasets::test {

/// Returns the bytes of such a file.
inline std::string GoldenFile(const std::string& name) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  const auto bytes =
      ReadFile(std::string(source == nullptr ? "." : source) + "/tests/testdata/images/" + name);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

/// Returns such a PNG, decoded.
inline RgbImage GoldenImage(const std::string& name) {
  const auto image = DecodePng(GoldenFile(name));
  EXPECT_TRUE(image.ok()) << name << ": " << image.status();
  return image.ok() ? *image : RgbImage{};
}

/// The difference of two images of one size, in levels of 0..255.
struct Difference {
  int largest = 256;  // also for images of different sizes
  double mean = 256;
};
inline Difference Compare(const RgbImage& a, const RgbImage& b) {
  if (a.size != b.size || a.pixels.size() != b.pixels.size()) return {};
  Difference found{.largest = 0, .mean = 0};
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const int levels = std::abs(int{a.pixels[i]} - int{b.pixels[i]});
    found.largest = std::max(found.largest, levels);
    found.mean += static_cast<double>(levels) / static_cast<double>(a.pixels.size());
  }
  return found;
}

}  // namespace mtrun::datasets::test
