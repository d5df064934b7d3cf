// Philox 4x32-10, the counter-based random numbers of Salmon, Moraes, Dror and Shaw ("Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011), and the numbers that a run makes of them. One source for the CPU
// and for a GPU, where it is compiled when a program starts and includes nothing. Pure functions.
#pragma once

#ifdef __CUDACC_RTC__
#define MT_HOST_DEVICE __host__ __device__
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#else
#include <cmath>
#include <cstdint>
#define MT_HOST_DEVICE
#endif

namespace mtrun::trainers {

struct PhiloxBlock {
  uint32_t words[4];
};

constexpr int kPhiloxRounds = 10;
constexpr uint64_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;  // increments of the key's halves

/// Returns 128 random bits of a counter and a key; the key's low half comes first.
MT_HOST_DEVICE constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, uint64_t key) {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = kPhiloxMultiplier0 * counter.words[0],
                   product1 = kPhiloxMultiplier1 * counter.words[2];
    counter = {
        {static_cast<uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

/// Names a stream of numbers; three 64-bit words, so that a tensor can hold it.
struct RandomStreamId {
  int64_t key = 0;  // from the seed and the purpose
  int64_t step = 0, micro_batch = 0;
};

/// Returns words 4 block .. 4 block + 3 of a stream. REQUIRES: block and id.micro_batch below 2^32.
MT_HOST_DEVICE constexpr PhiloxBlock RandomBlock(const RandomStreamId& id, uint64_t block) {
  return Philox4x32({{static_cast<uint32_t>(block), static_cast<uint32_t>(id.micro_batch),
                      static_cast<uint32_t>(id.step), static_cast<uint32_t>(id.step >> 32)}},
                    static_cast<uint64_t>(id.key));
}

/// Returns a number in [0, 1) from the upper 24 bits; float represents each value exactly.
MT_HOST_DEVICE constexpr float UniformOf(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / (1 << 24));
}

/// Computes two standard normal numbers (Box and Muller 1958), in double precision and rounded once. If a
/// GPU's logarithm and sine differ in the last place, all but one of 10^8 results are the same.
MT_HOST_DEVICE inline void NormalsOf(uint32_t word0, uint32_t word1, float& first, float& second) {
  constexpr double kUnit = 1.0 / 4294967296.0, kTwoPi = 6.283185307179586;
  const double radius = ::sqrt(-2 * ::log((word0 + 1.0) * kUnit)), angle = kTwoPi * kUnit * word1;
  first = static_cast<float>(radius * ::cos(angle));
  second = static_cast<float>(radius * ::sin(angle));
}

/// The numbers that are made of a stream's words.
enum class Draw : int {
  kUniform,  // a number in [0, 1) from each word
  kNormal,   // a standard normal number for each word, two from two words
  kKept,     // `value` if the word's uniform number is at least `rate`, otherwise 0
};

struct DrawPlan {
  Draw draw = Draw::kUniform;
  float rate = 0, value = 1;
  uint64_t first = 0;  // index in the stream's words
  int64_t count = 0;   // numbers, one per word
};

/// Returns the number that one word makes. REQUIRES: not kNormal.
MT_HOST_DEVICE constexpr float NumberOf(const DrawPlan& plan, uint32_t word) {
  const float uniform = UniformOf(word);
  return plan.draw == Draw::kUniform ? uniform : uniform >= plan.rate ? plan.value : 0.0f;
}

/// Writes one block's numbers that belong to out[0 .. count). All are written by blocks first / 4 .. (first +
/// count - 1) / 4.
MT_HOST_DEVICE inline void DrawBlock(const RandomStreamId& id, const DrawPlan& plan, uint64_t block,
                                     float* out) {
  const PhiloxBlock bits = RandomBlock(id, block);
  float numbers[4];
  if (plan.draw == Draw::kNormal) {
    NormalsOf(bits.words[0], bits.words[1], numbers[0], numbers[1]);
    NormalsOf(bits.words[2], bits.words[3], numbers[2], numbers[3]);
  } else {
    for (int i = 0; i < 4; ++i) numbers[i] = NumberOf(plan, bits.words[i]);
  }
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<int64_t>(4 * block + i - plan.first);
    if (at >= 0 && at < plan.count) out[at] = numbers[i];
  }
}

}  // namespace mtrun::trainers
