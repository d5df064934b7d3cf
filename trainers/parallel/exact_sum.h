// 64-bit integers through a sum of floating-point numbers, to the last bit: each is cut into limbs so small
// that every sum of them is an integer which float32 holds exactly, in whatever order it is added up. So they
// ride in a reduction that is made anyway. Pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace mtrun::trainers {

/// 11 bits a limb: exact for up to 8192 summands, whose limbs then come to less than 2^24.
inline constexpr int kLimbBits = 11, kLimbs = 6;

using Limbs = std::array<double, kLimbs>;

Limbs ToLimbs(uint64_t value);
/// The sum modulo 2^64 of the values whose limbs were added. REQUIRES: kLimbs sums.
uint64_t FromLimbs(absl::Span<const double> sums);

}  // namespace mtrun::trainers
