#include "datasets/images/jpeg_transform.h"

#include <algorithm>
#include <cstring>

#include "datasets/images/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mtrun::datasets {
namespace {

// Eight numbers at a time. The compiler makes instructions of these types for any processor. Numbers are
// unsigned, because coefficients of damaged files may overflow.
using Eight = uint32_t __attribute__((vector_size(32)));
using SignedEight = int32_t __attribute__((vector_size(32)));

constexpr int kBlock = 64;
constexpr int kConstantBits = 13, kFirstPassBits = 2;

/// Returns a number in units of 2^-13.
constexpr uint32_t Fix(double x) { return static_cast<uint32_t>(x * (1 << kConstantBits) + 0.5); }

/// v = v / 2^bits, rounded half up.
#define MT_ROUND(v, bits) \
  reinterpret_cast<Eight>(reinterpret_cast<SignedEight>((v) + (uint32_t{1} << ((bits)-1))) >> (bits))

/// One dimension of the 8-point transform; the results are divided by 2^bits.
template <int kBits>
[[gnu::always_inline]] inline void Transform8(Eight* v) {
  const Eight turn = (v[2] + v[6]) * Fix(0.541196100);
  const Eight even2 = turn - v[6] * Fix(1.847759065), even3 = turn + v[2] * Fix(0.765366865);
  const Eight sum = (v[0] + v[4]) << kConstantBits, difference = (v[0] - v[4]) << kConstantBits;
  const Eight e0 = sum + even3, e3 = sum - even3, e1 = difference + even2, e2 = difference - even2;
  const Eight z3 = v[7] + v[3], z4 = v[5] + v[1];
  const Eight z5 = (z3 + z4) * Fix(1.175875602);
  const Eight a = z5 - z3 * Fix(1.961570560), b = z5 - z4 * Fix(0.390180644);
  const Eight c = (v[7] + v[1]) * Fix(0.899976223), d = (v[5] + v[3]) * Fix(2.562915447);
  const Eight o0 = v[7] * Fix(0.298631336) - c + a;
  const Eight o1 = v[5] * Fix(2.053119869) - d + b;
  const Eight o2 = v[3] * Fix(3.072711026) - d + a;
  const Eight o3 = v[1] * Fix(1.501321110) - c + b;
  v[0] = MT_ROUND(e0 + o3, kBits);
  v[7] = MT_ROUND(e0 - o3, kBits);
  v[1] = MT_ROUND(e1 + o2, kBits);
  v[6] = MT_ROUND(e1 - o2, kBits);
  v[2] = MT_ROUND(e2 + o1, kBits);
  v[5] = MT_ROUND(e2 - o1, kBits);
  v[3] = MT_ROUND(e3 + o0, kBits);
  v[4] = MT_ROUND(e3 - o0, kBits);
}

/// The same into v[0..3], without v[4].
template <int kBits>
[[gnu::always_inline]] inline void Transform4(Eight* v) {
  const Eight first = v[0] << (kConstantBits + 1);
  const Eight even = v[2] * Fix(1.847759065) - v[6] * Fix(0.765366865);
  const Eight odd0 =
      v[5] * Fix(1.451774981) - v[7] * Fix(0.211164243) - v[3] * Fix(2.172734803) + v[1] * Fix(1.061594337);
  const Eight odd2 =
      v[3] * Fix(0.899976223) - v[7] * Fix(0.509795579) - v[5] * Fix(0.601344887) + v[1] * Fix(2.562915447);
  const Eight e0 = first + even, e1 = first - even;
  v[0] = MT_ROUND(e0 + odd2, kBits + 1);
  v[3] = MT_ROUND(e0 - odd2, kBits + 1);
  v[1] = MT_ROUND(e1 + odd0, kBits + 1);
  v[2] = MT_ROUND(e1 - odd0, kBits + 1);
}

/// The same into v[0..1], without v[2], v[4] and v[6].
template <int kBits>
[[gnu::always_inline]] inline void Transform2(Eight* v) {
  const Eight first = v[0] << (kConstantBits + 2);
  const Eight odd =
      v[5] * Fix(0.850430095) - v[7] * Fix(0.720959822) - v[3] * Fix(1.272758580) + v[1] * Fix(3.624509785);
  v[0] = MT_ROUND(first + odd, kBits + 2);
  v[1] = MT_ROUND(first - odd, kBits + 2);
}

template <int kEighths, int kBits>
[[gnu::always_inline]] inline void Transform(Eight* v) {
  if constexpr (kEighths == 8) Transform8<kBits>(v);
  if constexpr (kEighths == 4) Transform4<kBits>(v);
  if constexpr (kEighths == 2) Transform2<kBits>(v);
}

/// Exchanges rows and columns.
[[gnu::always_inline]] inline void Transpose(Eight* v) {
#define MT_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define MT_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define MT_LOW2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define MT_HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define MT_LOW4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define MT_HIGH4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
  const Eight a0 = MT_LOW(v[0], v[1]), a1 = MT_HIGH(v[0], v[1]);
  const Eight a2 = MT_LOW(v[2], v[3]), a3 = MT_HIGH(v[2], v[3]);
  const Eight a4 = MT_LOW(v[4], v[5]), a5 = MT_HIGH(v[4], v[5]);
  const Eight a6 = MT_LOW(v[6], v[7]), a7 = MT_HIGH(v[6], v[7]);
  const Eight b0 = MT_LOW2(a0, a2), b1 = MT_HIGH2(a0, a2), b2 = MT_LOW2(a1, a3), b3 = MT_HIGH2(a1, a3);
  const Eight b4 = MT_LOW2(a4, a6), b5 = MT_HIGH2(a4, a6), b6 = MT_LOW2(a5, a7), b7 = MT_HIGH2(a5, a7);
  v[0] = MT_LOW4(b0, b4);
  v[1] = MT_LOW4(b1, b5);
  v[2] = MT_LOW4(b2, b6);
  v[3] = MT_LOW4(b3, b7);
  v[4] = MT_HIGH4(b0, b4);
  v[5] = MT_HIGH4(b1, b5);
  v[6] = MT_HIGH4(b2, b6);
  v[7] = MT_HIGH4(b3, b7);
#undef MT_LOW
#undef MT_HIGH
#undef MT_LOW2
#undef MT_HIGH2
#undef MT_LOW4
#undef MT_HIGH4
}

/// Turns rows of coefficients into columns of samples around 0.
template <int kEighths>
[[gnu::always_inline]] inline void TransformBoth(Eight* v) {
  Transform<kEighths, kConstantBits - kFirstPassBits>(v);
  Transpose(v);
  Transform<kEighths, kConstantBits + kFirstPassBits + 3>(v);
}

template <int kEighths>
void Block(const int16_t* coefficients, const uint16_t* quantizers, uint8_t* out, ptrdiff_t stride) {
  int32_t products[kBlock];
  for (int i = 0; i < kBlock; ++i)
    products[i] = static_cast<int16_t>(static_cast<uint16_t>(coefficients[i]) * uint32_t{quantizers[i]});
  Eight v[8];
  std::memcpy(v, products, sizeof(v));
  TransformBoth<kEighths>(v);
  std::memcpy(products, v, sizeof(v));
  uint8_t samples[kBlock];
  for (int i = 0; i < kBlock; ++i) samples[i] = static_cast<uint8_t>(std::clamp(products[i] + 128, 0, 255));
  for (int x = 0; x < kEighths; ++x) std::memcpy(out + x * stride, samples + 8 * x, kEighths);
}

#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::always_inline]] inline Eight RowAvx2(const int16_t* coefficients,
                                                                 const uint16_t* quantizers, int row) {
  const __m128i numbers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(coefficients) + row);
  const __m128i by = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quantizers) + row);
  return reinterpret_cast<Eight>(_mm256_cvtepi16_epi32(_mm_mullo_epi16(numbers, by)));
}

/// Writes the first kEighths numbers of four columns.
template <int kEighths>
[[gnu::target("avx2"), gnu::always_inline]] inline void FourAvx2(const Eight* v, uint8_t* out,
                                                                 ptrdiff_t stride) {
  const __m256i middle = _mm256_set1_epi16(128);
  const auto* columns = reinterpret_cast<const __m256i*>(v);
  const __m256i two = _mm256_adds_epi16(_mm256_packs_epi32(columns[0], columns[1]), middle);
  const __m256i next = _mm256_adds_epi16(_mm256_packs_epi32(columns[2], columns[3]), middle);
  // Lanes of 4 bytes: the upper halves of four columns, then the lower ones.
  const __m256i lanes = _mm256_packus_epi16(two, next);
  const __m256i bytes = _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m128i first = _mm256_castsi256_si128(bytes), second = _mm256_extracti128_si256(bytes, 1);
  const int64_t numbers[] = {_mm_cvtsi128_si64(first), _mm_extract_epi64(first, 1), _mm_cvtsi128_si64(second),
                             _mm_extract_epi64(second, 1)};
  for (int x = 0; x < std::min(kEighths, 4); ++x) std::memcpy(out + x * stride, &numbers[x], kEighths);
}

template <int kEighths>
[[gnu::target("avx2")]] void BlockAvx2(const int16_t* coefficients, const uint16_t* quantizers, uint8_t* out,
                                       ptrdiff_t stride) {
  Eight v[8] = {RowAvx2(coefficients, quantizers, 0), RowAvx2(coefficients, quantizers, 1),
                RowAvx2(coefficients, quantizers, 2), RowAvx2(coefficients, quantizers, 3),
                RowAvx2(coefficients, quantizers, 4), RowAvx2(coefficients, quantizers, 5),
                RowAvx2(coefficients, quantizers, 6), RowAvx2(coefficients, quantizers, 7)};
  TransformBoth<kEighths>(v);
  FourAvx2<kEighths>(v, out, stride);
  if constexpr (kEighths == 8) FourAvx2<8>(v + 4, out + 4 * stride, stride);
}
#endif

}  // namespace

void InverseTransformAnywhere(const int16_t* coefficients, const uint16_t* quantizers, int eighths,
                              uint8_t* out, ptrdiff_t stride) {
  if (eighths == 8) return Block<8>(coefficients, quantizers, out, stride);
  if (eighths == 4) return Block<4>(coefficients, quantizers, out, stride);
  if (eighths == 2) return Block<2>(coefficients, quantizers, out, stride);
  InverseTransformFlat(coefficients[0], quantizers[0], 1, out, stride);
}

void InverseTransform(const int16_t* coefficients, const uint16_t* quantizers, int eighths, uint8_t* out,
                      ptrdiff_t stride) {
#if defined(__x86_64__)
  if (HasAvx2()) {
    if (eighths == 8) return BlockAvx2<8>(coefficients, quantizers, out, stride);
    if (eighths == 4) return BlockAvx2<4>(coefficients, quantizers, out, stride);
    if (eighths == 2) return BlockAvx2<2>(coefficients, quantizers, out, stride);
  }
#endif
  InverseTransformAnywhere(coefficients, quantizers, eighths, out, stride);
}

void InverseTransformFlat(int16_t coefficient, uint16_t quantizer, int eighths, uint8_t* out,
                          ptrdiff_t stride) {
  const auto product = static_cast<int16_t>(static_cast<uint16_t>(coefficient) * uint32_t{quantizer});
  const auto sample = static_cast<uint8_t>(std::clamp(((product + 4) >> 3) + 128, 0, 255));
  for (int x = 0; x < eighths; ++x) std::memset(out + x * stride, sample, static_cast<size_t>(eighths));
}

}  // namespace mtrun::datasets
