#include "datasets/images/blend.h"

#include <algorithm>
#include <cstring>

#include "datasets/images/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mtrun::datasets {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

/// Weights add up to about 2^kWeightBits and none is negative, so a sum can exceed 255 only slightly.
uint8_t ToByte(int32_t sum) { return static_cast<uint8_t>(std::min(sum >> kWeightBits, 255)); }

/// Blends bytes x .. bytes - 1.
void RowsAnywhere(const uint8_t* rows, int64_t bytes, int64_t x, int count, const int32_t* weights,
                  uint8_t* out) {
  for (; x < bytes; ++x) {
    int32_t sum = kHalf;
    for (int k = 0; k < count; ++k) sum += rows[k * bytes + x] * weights[k];
    out[x] = ToByte(sum);
  }
}

#if defined(__x86_64__)
/// Handles one pixel per vector; the fourth number belongs to the next pixel and is discarded.
__attribute__((target("avx2"))) void ColumnsAvx2(const uint8_t* row, const Taps* taps, int count,
                                                 const int32_t* weights, uint8_t* out) {
  const __m128i bytes_of_numbers = _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  for (int i = 0; i < count; ++i, out += 3) {
    const uint8_t* pixel = row + int64_t{3} * taps[i].first;
    const int32_t* weight = weights + taps[i].at;
    __m128i sum = _mm_set1_epi32(kHalf);
    for (int k = 0; k < taps[i].count; ++k, pixel += 3) {
      int32_t four = 0;
      std::memcpy(&four, pixel, sizeof(four));
      const __m128i numbers = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
      sum = _mm_add_epi32(sum, _mm_mullo_epi32(numbers, _mm_set1_epi32(weight[k])));
    }
    sum = _mm_min_epi32(_mm_srai_epi32(sum, kWeightBits), _mm_set1_epi32(255));
    const int32_t done = _mm_cvtsi128_si32(_mm_shuffle_epi8(sum, bytes_of_numbers));
    std::memcpy(out, &done, 3);
  }
}

/// Handles eight bytes of a row per vector.
__attribute__((target("avx2"))) void RowsAvx2(const uint8_t* rows, int64_t bytes, int count,
                                              const int32_t* weights, uint8_t* out) {
  int64_t x = 0;
  for (; x + 8 <= bytes; x += 8) {
    __m256i sum = _mm256_set1_epi32(kHalf);
    for (int k = 0; k < count; ++k) {
      const auto* eight = reinterpret_cast<const __m128i*>(rows + k * bytes + x);
      const __m256i numbers = _mm256_cvtepu8_epi32(_mm_loadl_epi64(eight));
      sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(numbers, _mm256_set1_epi32(weights[k])));
    }
    sum = _mm256_srai_epi32(sum, kWeightBits);
    const __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x), _mm_packus_epi16(shorts, shorts));
  }
  RowsAnywhere(rows, bytes, x, count, weights, out);
}
#endif

}  // namespace

void BlendColumns(const uint8_t* row, const Taps* taps, int count, const int32_t* weights, uint8_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) return ColumnsAvx2(row, taps, count, weights, out);
#endif
  BlendColumnsAnywhere(row, taps, count, weights, out);
}

void BlendRows(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) return RowsAvx2(rows, bytes, count, weights, out);
#endif
  RowsAnywhere(rows, bytes, 0, count, weights, out);
}

void BlendColumnsAnywhere(const uint8_t* row, const Taps* taps, int count, const int32_t* weights,
                          uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    const uint8_t* pixel = row + int64_t{3} * taps[i].first;
    const int32_t* weight = weights + taps[i].at;
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int k = 0; k < taps[i].count; ++k, pixel += 3) {
      red += weight[k] * pixel[0];
      green += weight[k] * pixel[1];
      blue += weight[k] * pixel[2];
    }
    *out++ = ToByte(red);
    *out++ = ToByte(green);
    *out++ = ToByte(blue);
  }
}

void BlendRowsAnywhere(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out) {
  RowsAnywhere(rows, bytes, 0, count, weights, out);
}

}  // namespace mtrun::datasets
