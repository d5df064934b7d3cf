#include "datasets/sampler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/sha256.h"
#include "base/splitmix.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

constexpr int kRounds = 8;
// 256 points even for tiny sets: a Feistel network over fewer has too few distinct permutations to look
// random.
constexpr int kMinHalfBits = 4;

/// Half the bits of the smallest domain 4^h that holds `size` points.
int HalfBits(uint64_t size) {
  const int bits = std::bit_width(size - 1);
  return std::max(kMinHalfBits, (bits + 1) / 2);
}

/// A keyed bijection of [0, 4^half_bits): Feistel network (Luby, Rackoff 1988) over splitmix64.
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

Sampler::Sampler(uint64_t seed, int64_t size, BatchPlan plan, bool shuffle)
    : seed_(seed), size_(size), plan_(plan), shuffle_(shuffle) {
  MT_CHECK(size >= 1 && size < int64_t{1} << 62) << "size " << size;
  MT_CHECK(plan.global_batch >= 1) << "global batch " << plan.global_batch;
  MT_CHECK(plan.micro_batch >= 1) << "micro-batch " << plan.micro_batch;
}

int64_t Sampler::steps_per_epoch() const { return (size_ - 1) / plan_.global_batch + 1; }

int64_t Sampler::samples_in_step(int64_t step_in_epoch) const {
  MT_CHECK(step_in_epoch >= 0) << "step " << step_in_epoch;
  if (step_in_epoch >= steps_per_epoch()) return 0;
  return std::min(plan_.global_batch, size_ - step_in_epoch * plan_.global_batch);
}

int64_t Sampler::samples_in_micro_batch(int64_t step_in_epoch, int64_t micro_batch) const {
  MT_CHECK(micro_batch >= 0) << "micro_batch " << micro_batch;
  if (micro_batch >= plan_.micro_batches()) return 0;
  const int64_t before = micro_batch * plan_.micro_batch;
  return std::clamp<int64_t>(samples_in_step(step_in_epoch) - before, 0, plan_.micro_batch);
}

std::vector<int64_t> Sampler::MicroBatch(int64_t epoch, int64_t step_in_epoch, int64_t micro_batch) const {
  std::vector<int64_t> ids(samples_in_micro_batch(step_in_epoch, micro_batch));
  const int64_t first = step_in_epoch * plan_.global_batch + micro_batch * plan_.micro_batch;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = IdAt(epoch, first + static_cast<int64_t>(i));
  return ids;
}

std::vector<int64_t> Sampler::Step(int64_t epoch, int64_t step_in_epoch) const {
  std::vector<int64_t> ids(samples_in_step(step_in_epoch));
  const int64_t first = step_in_epoch * plan_.global_batch;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = IdAt(epoch, first + static_cast<int64_t>(i));
  return ids;
}

int64_t Sampler::IdAt(int64_t epoch, int64_t position) const {
  if (!shuffle_) return position;
  const uint64_t size = static_cast<uint64_t>(size_);
  const uint64_t key = NamedStream(seed_, "sampler").At(static_cast<uint64_t>(epoch));
  const int half_bits = HalfBits(size);
  uint64_t x = static_cast<uint64_t>(position);
  // Cycle walking: the walk from a point inside comes back inside, and stays a bijection there.
  do x = Feistel(key, half_bits, x);
  while (x >= size);
  return static_cast<int64_t>(x);
}

std::string DigestOfIds(const std::vector<int64_t>& ids) {
  std::string bytes;
  bytes.reserve(ids.size() * 8);
  for (const int64_t id : ids) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<uint64_t>(id) >> shift));
  }
  return Sha256Hex(bytes);
}

}  // namespace mtrun::datasets
