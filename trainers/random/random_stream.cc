#include "trainers/random/random_stream.h"

namespace mtrun::trainers {
namespace {

/// Blocks that are computed side by side, in a loop for each operation that the compiler can vectorise.
constexpr int kLanes = 8;

struct Lanes {
  uint32_t words[4][kLanes];
};

void Round(Lanes& lanes, uint32_t key0, uint32_t key1) {
  auto& [a, b, c, d] = lanes.words;
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t product0 = kPhiloxMultiplier0 * a[i], product1 = kPhiloxMultiplier1 * c[i];
    a[i] = static_cast<uint32_t>(product1 >> 32) ^ b[i] ^ key0;
    b[i] = static_cast<uint32_t>(product1);
    c[i] = static_cast<uint32_t>(product0 >> 32) ^ d[i] ^ key1;
    d[i] = static_cast<uint32_t>(product0);
  }
}

/// Computes RandomBlock of block .. block + kLanes - 1.
void ManyBlocks(const RandomStreamId& id, uint64_t block, Lanes& lanes) {
  for (int i = 0; i < kLanes; ++i) {
    lanes.words[0][i] = static_cast<uint32_t>(block + static_cast<uint64_t>(i));
    lanes.words[1][i] = static_cast<uint32_t>(id.micro_batch);
    lanes.words[2][i] = static_cast<uint32_t>(id.step);
    lanes.words[3][i] = static_cast<uint32_t>(id.step >> 32);
  }
  auto key0 = static_cast<uint32_t>(id.key), key1 = static_cast<uint32_t>(id.key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round, key0 += kPhiloxWeyl0, key1 += kPhiloxWeyl1)
    Round(lanes, key0, key1);
}

/// Draws uniform or kept numbers of kLanes whole blocks.
void DrawMany(const RandomStreamId& id, const DrawPlan& plan, uint64_t block, float* out) {
  Lanes lanes;
  ManyBlocks(id, block, lanes);
  float numbers[4][kLanes];
  for (int word = 0; word < 4; ++word) {
    for (int i = 0; i < kLanes; ++i) numbers[word][i] = NumberOf(plan, lanes.words[word][i]);
  }
  for (int i = 0; i < kLanes; ++i) {
    for (int word = 0; word < 4; ++word) out[4 * i + word] = numbers[word][i];
  }
}

}  // namespace

void DrawNumbers(const RandomStreamId& id, const DrawPlan& plan, float* out) {
  if (plan.count <= 0) return;
  const uint64_t end = plan.first + static_cast<uint64_t>(plan.count);  // end of the words
  uint64_t block = plan.first / 4;
  const bool whole = plan.first % 4 == 0;
  while (4 * block < end) {
    if (whole && plan.draw != Draw::kNormal && 4 * (block + kLanes) <= end) {
      DrawMany(id, plan, block, out + (4 * block - plan.first));
      block += kLanes;
    } else {
      DrawBlock(id, plan, block++, out);
    }
  }
}

}  // namespace mtrun::trainers
