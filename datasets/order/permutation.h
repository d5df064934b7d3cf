// Permutations with random access, without storage. Pure functions.
#pragma once

#include <cstdint>

namespace mtrun::datasets {

/// Maps `position` of [0, size): a bijection of [0, size) for each key, by a Feistel network (Luby, Rackoff
/// 1988) of 8 rounds over splitmix64, walked until the result is inside (docs/formats.md, "The order of
/// samples"). REQUIRES: 0 <= position < size < 2^62.
int64_t Permuted(uint64_t key, int64_t size, int64_t position);

}  // namespace mtrun::datasets
