// A 16-byte checksum of a set of samples; sums of parts can be added in any order.
#pragma once

#include <cstdint>

#include "base/splitmix.h"

namespace mtrun::datasets {

struct SampleSum {
  uint64_t hash = 0;  // sum of SplitMix64 over the ids, modulo 2^64
  int64_t count = 0;

  void Add(int64_t id) {
    hash += SplitMix64(static_cast<uint64_t>(id));
    ++count;
  }
  SampleSum& operator+=(const SampleSum& other) {
    hash += other.hash;
    count += other.count;
    return *this;
  }
  bool operator==(const SampleSum&) const = default;
};

}  // namespace mtrun::datasets
