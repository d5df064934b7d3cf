#include "trainers/models/conv_kernels.h"

#include <cstring>

namespace mtrun::models {

bool ConvKernelsRunHere() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace mtrun::models

// Code below is always compiled for AVX2, and ConvKernelsRunHere() guards the calls. No header may be
// included below, or its inline functions would be compiled for AVX2 in the whole program. On other
// processors, the compiler maps its vector types to what they have.
#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#elif defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace mtrun::models {
namespace {

constexpr int kGroup = 4;  // filters (or channels) that are computed together
constexpr int kTaps = 9;
constexpr int kBorder = 2;  // zeros above and left of the spread gradient

template <typename Real>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float Vec __attribute__((vector_size(32)));
};
template <>
struct Lanes<double> {
  typedef double Vec __attribute__((vector_size(32)));
};
template <typename Real>
using Vec = typename Lanes<Real>::Vec;
template <typename Real>
constexpr int kLanes = 32 / sizeof(Real);

template <typename Real>
inline void Load(const Real* from, Vec<Real>& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <typename Real>
inline void Store(const Vec<Real>& from, Real* to) {
  std::memcpy(to, &from, sizeof(from));
}

constexpr int RoundUp(int n, int to) { return (n + to - 1) / to * to; }

/// Row length of the spread gradient, with space for the border on both sides and for whole vectors.
int ScratchStride(const ConvShape& s) { return RoundUp(s.width, 8) + 8 + kBorder; }
int ScratchRows(const ConvShape& s) { return s.height + kBorder; }
int64_t ScratchPlane(const ConvShape& s) { return int64_t{ScratchRows(s)} * ScratchStride(s); }

/// Computes two rows of the convolution from `input` on, for four filters and one vector of columns.
template <typename Real>
inline void ConvolveRowPair(const ConvShape& s, const Real* input, const Real* packed, const Real* bias,
                            Vec<Real> (&rows)[2][kGroup]) {
  for (int f = 0; f < kGroup; ++f) rows[0][f] = rows[1][f] = Vec<Real>{} + bias[f];
  for (int c = 0; c < s.channels; ++c, input += s.height * s.width) {
    for (int tap = 0; tap < kTaps; ++tap, packed += kGroup) {
      const Real* at = input + tap / 3 * s.width + tap % 3;
      Vec<Real> upper, lower;
      Load(at, upper);
      Load(at + s.width, lower);
#pragma GCC unroll 4
      for (int f = 0; f < kGroup; ++f) {
        const Vec<Real> weight = Vec<Real>{} + packed[f];
        rows[0][f] += upper * weight;
        rows[1][f] += lower * weight;
      }
    }
  }
}

/// Returns true if `b`, which comes later, replaces `a`.
template <typename Real>
inline bool Beats(Real b, Real a) {
  return b > a || b != b;
}

/// Computes ReLU and the maximum of 2x2 over `pairs` pairs of columns.
template <typename Real>
inline void PoolRowPair(const Real* upper, const Real* lower, int pairs, Real* output, uint8_t* winner) {
  for (int i = 0; i < pairs; ++i) {
    Real best = upper[2 * i];
    int which = 0;
    const Real others[3] = {upper[2 * i + 1], lower[2 * i], lower[2 * i + 1]};
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k) {
      const bool take = Beats(others[k], best);
      best = take ? others[k] : best;
      which = take ? k + 1 : which;
    }
    const bool passes = !(best <= 0);
    output[i] = passes ? best : Real(0);
    winner[i] = static_cast<uint8_t>(passes ? which : kNoWinner);
  }
}

template <typename Real>
inline Real SumOfLanes(const Vec<Real>& v) {
  Real lanes[kLanes<Real>], sum = 0;
  Store(v, lanes);
  for (const Real lane : lanes) sum += lane;
  return sum;
}

/// Adds the gradients of four filters for one channel and one row of taps, over the whole image.
template <typename Real>
inline void AddTapRow(const ConvShape& s, const Real* input, const Real* scratch, int64_t plane,
                      Vec<Real> (&sums)[kGroup][3]) {
  const int stride = ScratchStride(s), columns = 2 * s.pooled_width();
  for (int y = 0; y < 2 * s.pooled_height(); ++y) {
    const Real* row = input + y * s.width;
    const Real* spread = scratch + (y + kBorder) * stride + kBorder;
    for (int x = 0; x < columns; x += kLanes<Real>) {
      Vec<Real> in[3];
#pragma GCC unroll 3
      for (int kx = 0; kx < 3; ++kx) Load(row + x + kx, in[kx]);
#pragma GCC unroll 4
      for (int f = 0; f < kGroup; ++f) {
        Vec<Real> grad;
        Load(spread + f * plane + x, grad);
#pragma GCC unroll 3
        for (int kx = 0; kx < 3; ++kx) sums[f][kx] += grad * in[kx];
      }
    }
  }
}

}  // namespace

template <typename Real>
void PackWeight(const ConvShape& s, const Real* weight, Real* packed) {
  const int taps = s.channels * kTaps;
  for (int f = 0; f < s.filters; ++f) {
    for (int t = 0; t < taps; ++t)
      packed[(f / kGroup * taps + t) * kGroup + f % kGroup] = weight[f * taps + t];
  }
}

template <typename Real>
void PackWeightTransposed(const ConvShape& s, const Real* weight, Real* packed) {
  const int taps = s.filters * kTaps;
  for (int c = 0; c < s.channels; ++c) {
    for (int t = 0; t < taps; ++t) {
      packed[(c / kGroup * taps + t) * kGroup + c % kGroup] =
          weight[(t / kTaps * s.channels + c) * kTaps + t % kTaps];
    }
  }
}

template <typename Real>
void ConvReluPoolForward(const ConvShape& s, const Real* input, const Real* packed, const Real* bias,
                         Real* output, uint8_t* winner) {
  const int ph = s.pooled_height(), pw = s.pooled_width();
  for (int f = 0; f < s.filters; f += kGroup) {
    for (int y = 0; y < ph; ++y) {
      for (int x = 0; x < 2 * pw; x += kLanes<Real>) {
        Vec<Real> rows[2][kGroup];
        ConvolveRowPair(s, input + 2 * y * s.width + x, packed + f * s.channels * kTaps, bias + f, rows);
        const int pairs = (2 * pw - x < kLanes<Real> ? 2 * pw - x : kLanes<Real>) / 2;
        for (int k = 0; k < kGroup; ++k) {
          Real upper[kLanes<Real>], lower[kLanes<Real>];
          Store(rows[0][k], upper);
          Store(rows[1][k], lower);
          const int64_t at = (int64_t{f + k} * ph + y) * pw + x / 2;
          PoolRowPair(upper, lower, pairs, output + at, winner + at);
        }
      }
    }
  }
}

int64_t ConvScratchNumel(const ConvShape& s) { return s.filters * ScratchPlane(s); }

template <typename Real>
void SpreadGradient(const ConvShape& s, const Real* grad_output, const uint8_t* winner, Real* scratch,
                    Real* grad_bias) {
  const int stride = ScratchStride(s);
  std::memset(scratch, 0, ConvScratchNumel(s) * sizeof(Real));
  for (int f = 0; f < s.filters; ++f) {
    Real* plane = scratch + f * ScratchPlane(s) + kBorder * stride + kBorder;
    Real sum = 0;
    for (int y = 0; y < s.pooled_height(); ++y) {
      for (int x = 0; x < s.pooled_width(); ++x, ++grad_output, ++winner) {
        if (*winner == kNoWinner) continue;
        plane[(2 * y + *winner / 2) * stride + 2 * x + *winner % 2] = *grad_output;
        sum += *grad_output;
      }
    }
    grad_bias[f] += sum;
  }
}

template <typename Real>
void AddWeightGradient(const ConvShape& s, const Real* input, const Real* scratch, Real* grad_weight) {
  const int64_t plane = ScratchPlane(s);
  for (int f = 0; f < s.filters; f += kGroup) {
    for (int c = 0; c < s.channels; ++c) {
      for (int ky = 0; ky < 3; ++ky) {
        Vec<Real> sums[kGroup][3] = {};
        AddTapRow(s, input + (c * s.height + ky) * s.width, scratch + f * plane, plane, sums);
        for (int k = 0; k < kGroup; ++k) {
          Real* to = grad_weight + (int64_t{f + k} * s.channels + c) * kTaps + ky * 3;
          for (int kx = 0; kx < 3; ++kx) to[kx] += SumOfLanes<Real>(sums[k][kx]);
        }
      }
    }
  }
}

template <typename Real>
void InputGradient(const ConvShape& s, const Real* scratch, const Real* packed, Real* grad_input) {
  const int stride = ScratchStride(s);
  for (int c = 0; c < s.channels; c += kGroup) {
    for (int y = 0; y < s.height; ++y) {
      for (int x = 0; x < s.width; x += kLanes<Real>) {
        Vec<Real> sums[kGroup] = {};
        const Real* weight = packed + c * s.filters * kTaps;
        const Real* grad = scratch + (y + kBorder) * stride + x + kBorder;
        for (int f = 0; f < s.filters; ++f, grad += ScratchPlane(s)) {
          for (int tap = 0; tap < kTaps; ++tap, weight += kGroup) {
            Vec<Real> g;
            Load(grad - tap / 3 * stride - tap % 3, g);
#pragma GCC unroll 4
            for (int k = 0; k < kGroup; ++k) sums[k] += g * (Vec<Real>{} + weight[k]);
          }
        }
        const int columns = s.width - x < kLanes<Real> ? s.width - x : kLanes<Real>;
        for (int k = 0; k < kGroup; ++k) {
          Real lanes[kLanes<Real>];
          Store(sums[k], lanes);
          std::memcpy(grad_input + (int64_t{c + k} * s.height + y) * s.width + x, lanes,
                      columns * sizeof(Real));
        }
      }
    }
  }
}

#define MT_INSTANTIATE(Real)                                                                              \
  template void PackWeight<Real>(const ConvShape&, const Real*, Real*);                                   \
  template void PackWeightTransposed<Real>(const ConvShape&, const Real*, Real*);                         \
  template void ConvReluPoolForward<Real>(const ConvShape&, const Real*, const Real*, const Real*, Real*, \
                                          uint8_t*);                                                      \
  template void SpreadGradient<Real>(const ConvShape&, const Real*, const uint8_t*, Real*, Real*);        \
  template void AddWeightGradient<Real>(const ConvShape&, const Real*, const Real*, Real*);               \
  template void InputGradient<Real>(const ConvShape&, const Real*, const Real*, Real*);
MT_INSTANTIATE(float)
MT_INSTANTIATE(double)
#undef MT_INSTANTIATE

}  // namespace mtrun::models

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#elif defined(__x86_64__)
#pragma GCC pop_options
#endif
