// Reproducible counter-based random numbers: splitmix64 (Steele, Lea, Flood 2014) keyed by FNV-1a of a name.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtrun {

/// One round of splitmix64: adds the golden gamma, then mixes.
constexpr uint64_t SplitMix64(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

constexpr uint64_t Fnv1a(std::string_view name) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return h;
}

/// A random-access stream of 64-bit numbers for each (seed, name): At(i) = SplitMix64((fnv1a(name) ^
/// SplitMix64(seed)) + i).
class NamedStream {
 public:
  constexpr NamedStream(uint64_t seed, std::string_view name) : key_(Fnv1a(name) ^ SplitMix64(seed)) {}
  constexpr uint64_t At(uint64_t i) const { return SplitMix64(key_ + i); }
  /// Returns a number in [0, 1), from the top 53 bits.
  constexpr double Uniform(uint64_t i) const { return static_cast<double>(At(i) >> 11) * 0x1.0p-53; }
  /// Returns a number in [-1, 1).
  constexpr double Signed(uint64_t i) const { return 2.0 * Uniform(i) - 1.0; }
  /// Returns a standard normal number, by Box-Muller over uniforms 2i and 2i+1.
  double Normal(uint64_t i) const;

 private:
  uint64_t key_;
};

}  // namespace mtrun
