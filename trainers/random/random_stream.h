// Random numbers of one micro-batch of one step (augmentation, dropout, noise). They are a function of (seed,
// step, micro-batch, purpose), whatever worker and device compute the micro-batch. docs/formats.md has the
// definition. Independent of LibTorch.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/splitmix.h"
#include "trainers/random/philox.h"

namespace mtrun::trainers {

/// Version of the definition. If it differs between runs, one cannot continue the other unnoticed.
inline constexpr char kRandomStreamVersion[] = "2";

/// A random-access stream. `step` counts over the whole run; `purpose` keeps "augment" and "dropout" apart.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, int64_t step, int64_t micro_batch, std::string_view purpose)
      : id_{static_cast<int64_t>(SplitMix64(SplitMix64(seed) ^ Fnv1a(purpose))), step, micro_batch} {}

  constexpr const RandomStreamId& id() const { return id_; }
  constexpr uint32_t Word(uint64_t i) const { return RandomBlock(id_, i / 4).words[i % 4]; }
  /// Returns a number in [0, 1).
  constexpr double Uniform(uint64_t i) const { return UniformOf(Word(i)); }
  /// Returns a whole number 0 .. n - 1. REQUIRES: n > 0.
  constexpr uint32_t Below(uint64_t i, uint32_t n) const {
    return static_cast<uint32_t>((uint64_t{Word(i)} * n) >> 32);
  }

 private:
  RandomStreamId id_;
};

/// Writes plan.count numbers; threads may write different parts of a plan.
void DrawNumbers(const RandomStreamId& id, const DrawPlan& plan, float* out);

}  // namespace mtrun::trainers
