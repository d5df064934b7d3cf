#include "datasets/order/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/splitmix.h"

namespace mtrun::datasets {
namespace {

constexpr int kRounds = 8;
// 256 points even for tiny sets: a Feistel network over fewer has too few permutations to look random.
constexpr int kMinHalfBits = 4;

/// Returns half the bits of the smallest domain 4^h with at least `size` points.
int HalfBits(uint64_t size) {
  const int bits = std::bit_width(size - 1);
  return std::max(kMinHalfBits, (bits + 1) / 2);
}

/// A keyed bijection of [0, 4^half_bits).
uint64_t Feistel(uint64_t key, int half_bits, uint64_t x) {
  uint64_t left = x >> half_bits;
  uint64_t right = x & ((uint64_t{1} << half_bits) - 1);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = SplitMix64(SplitMix64(key + round) ^ right) >> (64 - half_bits);
    left = std::exchange(right, left ^ mixed);
  }
  return left << half_bits | right;
}

}  // namespace

int64_t Permuted(uint64_t key, int64_t size, int64_t position) {
  const auto points = static_cast<uint64_t>(size);
  const int half_bits = HalfBits(points);
  auto x = static_cast<uint64_t>(position);
  // Cycle walking: a walk from a point inside returns inside, so the result is a bijection there.
  do x = Feistel(key, half_bits, x);
  while (x >= points);
  return static_cast<int64_t>(x);
}

}  // namespace mtrun::datasets
