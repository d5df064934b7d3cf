#include "datasets/images/plane_blend.h"

#include <algorithm>
#include <cstring>

#include "datasets/images/processor.h"
#include "datasets/images/triangle_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mtrun::datasets {
namespace {

// Sums are in units of 1 / 64 level: a sum of kMostLines products, each rounded, fits into 16 bits, also
// after the conversion to RGB.
constexpr int kFraction = 6, kOne = 1 << kFraction;

// Conversion of JFIF to RGB, in units of 2^-15: R = Y + (1 + 0.402) Cr, G = Y - 0.344136 Cb - 0.714136 Cr,
// B = Y + (2 - 0.228) Cb.
constexpr int16_t kRedOfCr = 13173, kGreenOfCb = 11277, kGreenOfCr = 23401, kBlueOfCb = 7471;

/// Returns a * b / 2^15, rounded half up: the instruction pmulhrsw.
int MultiplyHigh(int a, int b) { return (a * b + (1 << 14)) >> 15; }

using Sums = std::array<int, kLanes>;

/// Loops over kLanes numbers, which the compiler makes vectors of.
Sums SumsAt(const Lines& lines, int x) {
  Sums sums = {};
  for (int k = 0; k < lines.count; ++k) {
    const uint8_t* line = lines.first + k * lines.stride + x;
    const int weight = lines.weights[k];
    for (int i = 0; i < kLanes; ++i) sums[i] += MultiplyHigh(line[i] << kFraction, weight);
  }
  return sums;
}

uint8_t ToLevel(int sum) { return static_cast<uint8_t>(std::clamp((sum + kOne / 2) >> kFraction, 0, 255)); }

#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i SumAvx2(const Lines& lines, int x) {
  __m256i sum = _mm256_setzero_si256();
  const uint8_t* line = lines.first + x;
  for (int k = 0; k < lines.count; ++k, line += lines.stride) {
    const __m256i numbers = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(line)));
    sum = _mm256_add_epi16(
        sum, _mm256_mulhrs_epi16(_mm256_slli_epi16(numbers, kFraction), _mm256_set1_epi16(lines.weights[k])));
  }
  return sum;
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i TimesAvx2(__m256i a, int16_t b) {
  return _mm256_mulhrs_epi16(a, _mm256_set1_epi16(b));
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m128i ToLevelsAvx2(__m256i sum) {
  sum = _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(kOne / 2)), kFraction);
  return _mm_packus_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

[[gnu::target("avx2")]] void LinesAvx2(const Lines& lines, int bytes, uint8_t* out) {
  for (int x = 0; x < bytes; x += kLanes)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), ToLevelsAvx2(SumAvx2(lines, x)));
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m128i MergeAvx2(__m128i a, __m128i b, __m128i c) {
  return _mm_or_si128(_mm_or_si128(a, b), c);
}

/// Writes 16 pixels of 3 bytes.
[[gnu::target("avx2"), gnu::always_inline]] inline void InterleaveAvx2(__m128i red, __m128i green,
                                                                       __m128i blue, uint8_t* out) {
  const __m128i red0 = _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
  const __m128i green0 = _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
  const __m128i blue0 = _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
  const __m128i red1 = _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
  const __m128i green1 = _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
  const __m128i blue1 = _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
  const __m128i red2 = _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
  const __m128i green2 = _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
  const __m128i blue2 = _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
  auto* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, MergeAvx2(_mm_shuffle_epi8(red, red0), _mm_shuffle_epi8(green, green0),
                                 _mm_shuffle_epi8(blue, blue0)));
  _mm_storeu_si128(to + 1, MergeAvx2(_mm_shuffle_epi8(red, red1), _mm_shuffle_epi8(green, green1),
                                     _mm_shuffle_epi8(blue, blue1)));
  _mm_storeu_si128(to + 2, MergeAvx2(_mm_shuffle_epi8(red, red2), _mm_shuffle_epi8(green, green2),
                                     _mm_shuffle_epi8(blue, blue2)));
}

[[gnu::target("avx2")]] void ToRgbAvx2(const std::array<Lines, 3>& lines, int pixels, uint8_t* out) {
  const __m256i grey = _mm256_set1_epi16(128 * kOne);
  for (int x = 0; x < pixels; x += kLanes) {
    const __m256i y = SumAvx2(lines[0], x);
    const __m256i cb = _mm256_sub_epi16(SumAvx2(lines[1], x), grey);
    const __m256i cr = _mm256_sub_epi16(SumAvx2(lines[2], x), grey);
    const __m256i red = _mm256_add_epi16(y, _mm256_add_epi16(cr, TimesAvx2(cr, kRedOfCr)));
    const __m256i green =
        _mm256_sub_epi16(y, _mm256_add_epi16(TimesAvx2(cb, kGreenOfCb), TimesAvx2(cr, kGreenOfCr)));
    const __m256i blue =
        _mm256_add_epi16(y, _mm256_sub_epi16(_mm256_add_epi16(cb, cb), TimesAvx2(cb, kBlueOfCb)));
    uint8_t part[3 * kLanes];
    const bool whole = x + kLanes <= pixels;
    uint8_t* to = whole ? out + 3 * x : part;
    InterleaveAvx2(ToLevelsAvx2(red), ToLevelsAvx2(green), ToLevelsAvx2(blue), to);
    if (!whole) std::copy_n(part, 3 * (pixels - x), out + 3 * x);
  }
}
#endif

}  // namespace

void BlendLinesAnywhere(const Lines& lines, int bytes, uint8_t* out) {
  for (int x = 0; x < bytes; x += kLanes) {
    const Sums sums = SumsAt(lines, x);
    for (int i = 0; i < kLanes; ++i) out[x + i] = ToLevel(sums[i]);
  }
}

void BlendToRgbAnywhere(const std::array<Lines, 3>& lines, int pixels, uint8_t* out) {
  for (int x = 0; x < pixels; x += kLanes) {
    const Sums y = SumsAt(lines[0], x), blues = SumsAt(lines[1], x), reds = SumsAt(lines[2], x);
    std::array<std::array<uint8_t, kLanes>, 3> rgb;
    for (int i = 0; i < kLanes; ++i) {
      const int cb = blues[i] - 128 * kOne, cr = reds[i] - 128 * kOne;
      rgb[0][i] = ToLevel(y[i] + cr + MultiplyHigh(cr, kRedOfCr));
      rgb[1][i] = ToLevel(y[i] - MultiplyHigh(cb, kGreenOfCb) - MultiplyHigh(cr, kGreenOfCr));
      rgb[2][i] = ToLevel(y[i] + 2 * cb - MultiplyHigh(cb, kBlueOfCb));
    }
    for (int i = 0; i < std::min(kLanes, pixels - x); ++i) {
      for (const auto& levels : rgb) *out++ = levels[i];
    }
  }
}

void BlendLines(const Lines& lines, int bytes, uint8_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) return LinesAvx2(lines, bytes, out);
#endif
  BlendLinesAnywhere(lines, bytes, out);
}

void BlendToRgb(const std::array<Lines, 3>& lines, int pixels, uint8_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) return ToRgbAvx2(lines, pixels, out);
#endif
  BlendToRgbAnywhere(lines, pixels, out);
}

void TransposeLanes(const uint8_t* columns, ptrdiff_t from_stride, int count, uint8_t* rows,
                    ptrdiff_t to_stride) {
  using Sixteen = uint8_t __attribute__((vector_size(16)));
  for (int y = 0; y < count; y += kLanes) {
    Sixteen v[kLanes], w[kLanes];
    for (int x = 0; x < kLanes; ++x) std::memcpy(&v[x], columns + x * from_stride + y, sizeof(v[x]));
    // Four rounds of a perfect shuffle of all bytes exchange the upper and lower half of each byte's place.
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < kLanes / 2; ++i) {
        w[2 * i] =
            __builtin_shufflevector(v[i], v[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                               14, 30, 15, 31);
      }
      std::copy_n(w, kLanes, v);
    }
    for (int x = 0; x < kLanes; ++x) std::memcpy(rows + (y + x) * to_stride, &v[x], sizeof(v[x]));
  }
}

}  // namespace mtrun::datasets
