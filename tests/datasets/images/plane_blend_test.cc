// The processor's vectors against the portable implementations, bit for bit.
#include "datasets/images/plane_blend.h"

#include <random>
#include <vector>

#include "datasets/images/jpeg_transform.h"
#include "datasets/images/triangle_kernel.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

std::vector<uint8_t> RandomBytes(std::mt19937_64& random, size_t count) {
  std::vector<uint8_t> bytes(count);
  const bool extreme = random() % 2 == 0;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(extreme ? 255 * (random() % 2) : random());
  return bytes;
}

TEST(PlaneBlendTest, VectorsEqualThePortableResult) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int count = static_cast<int>(1 + random() % kMostLines),
              pixels = static_cast<int>(1 + random() % 70);
    const int bytes = RoundUpToLanes(pixels);
    // One output position that takes all lines.
    const ShortKernel kernel = Compose(TriangleKernel(0, int64_t{8} * count, 1), {});
    ASSERT_EQ(kernel.taps.front().count, count);
    std::array<std::vector<uint8_t>, 3> planes;
    std::array<Lines, 3> lines;
    for (int c = 0; c < 3; ++c) {
      planes[c] = RandomBytes(random, static_cast<size_t>(bytes) * count);
      lines[c] = {planes[c].data(), bytes, kernel.weights.data(), count};
    }
    std::vector<uint8_t> fast(bytes), portable(bytes), fast_rgb(3 * pixels), portable_rgb(3 * pixels);
    BlendLines(lines[0], bytes, fast.data());
    BlendLinesAnywhere(lines[0], bytes, portable.data());
    EXPECT_EQ(fast, portable) << "seed " << seed;
    BlendToRgb(lines, pixels, fast_rgb.data());
    BlendToRgbAnywhere(lines, pixels, portable_rgb.data());
    EXPECT_EQ(fast_rgb, portable_rgb) << "seed " << seed;
  }
}

TEST(PlaneBlendTest, EqualBytesStayTheSame) {
  for (const int count : {1, 2, 7, kMostLines}) {
    const ShortKernel kernel = Compose(TriangleKernel(0, int64_t{8} * count, 1), {});
    for (int level = 0; level < 256; ++level) {
      const std::vector<uint8_t> bytes(static_cast<size_t>(kLanes) * count, static_cast<uint8_t>(level));
      std::vector<uint8_t> out(kLanes);
      BlendLinesAnywhere({bytes.data(), kLanes, kernel.weights.data(), count}, kLanes, out.data());
      EXPECT_EQ(out[3], level) << count;
    }
  }
}

TEST(PlaneBlendTest, TransposedLanesAreExchanged) {
  std::mt19937_64 random(1);
  const std::vector<uint8_t> columns = RandomBytes(random, size_t{kLanes} * 48);
  std::vector<uint8_t> rows(48 * size_t{20});
  TransposeLanes(columns.data(), 48, 48, rows.data(), 20);
  for (int x = 0; x < kLanes; ++x) {
    for (int y = 0; y < 48; ++y) ASSERT_EQ(rows[y * 20 + x], columns[x * 48 + y]);
  }
}

/// Coefficients of damaged files have any value; libjpeg's own result is compared in JpegCropTest.
TEST(JpegTransformTest, VectorsEqualThePortableResult) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4000; ++round) {
    int16_t coefficients[64];
    uint16_t quantizers[64];
    const int bits = static_cast<int>(1 + random() % 16);
    for (int i = 0; i < 64; ++i) {
      coefficients[i] = static_cast<int16_t>(random() % 3 == 0 ? 0 : random() >> (64 - bits));
      quantizers[i] = static_cast<uint16_t>(round % 5 == 0 ? random() : 1 + random() % 16);
    }
    for (const int eighths : {1, 2, 4, 8}) {
      std::array<uint8_t, 96> fast = {}, portable = {};
      InverseTransform(coefficients, quantizers, eighths, fast.data(), 12);
      InverseTransformAnywhere(coefficients, quantizers, eighths, portable.data(), 12);
      ASSERT_EQ(fast, portable) << eighths << " eighths, seed " << seed;
    }
  }
}

TEST(JpegTransformTest, FlatBlockEqualsTheTransformed) {
  for (int level = -2048; level < 2048; level += 3) {
    const int16_t coefficients[64] = {static_cast<int16_t>(level)};
    const uint16_t quantizers[64] = {5};
    for (const int eighths : {1, 2, 4, 8}) {
      std::array<uint8_t, 96> flat = {}, whole = {};
      InverseTransformFlat(coefficients[0], quantizers[0], eighths, flat.data(), 12);
      InverseTransform(coefficients, quantizers, eighths, whole.data(), 12);
      ASSERT_EQ(flat, whole) << level;
    }
  }
}

}  // namespace
}  // namespace mtrun::datasets
