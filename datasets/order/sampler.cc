#include "datasets/order/sampler.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "datasets/order/permutation.h"

namespace mtrun::datasets {

Sampler::Sampler(uint64_t seed, int64_t size, BatchPlan plan, bool shuffle)
    : seed_(seed), size_(size), plan_(plan), shuffle_(shuffle) {
  MT_CHECK(size >= 1 && size < int64_t{1} << 62) << "size " << size;
  MT_CHECK(plan.global_batch >= 1) << "global batch " << plan.global_batch;
  MT_CHECK(plan.micro_batch >= 1) << "micro-batch " << plan.micro_batch;
}

Sampler::Sampler(uint64_t seed, BatchPlan plan, StreamShards shards) : seed_(seed), plan_(plan) {
  MT_CHECK(plan.global_batch >= 1) << "global batch " << plan.global_batch;
  MT_CHECK(plan.micro_batch >= 1) << "micro-batch " << plan.micro_batch;
  streams_.emplace(seed, plan, std::move(shards));
  size_ = streams_->size();
}

int64_t Sampler::samples_in_step(int64_t step_in_epoch) const {
  MT_CHECK(step_in_epoch >= 0) << "step " << step_in_epoch;
  return plan_.SamplesInStep(size_, step_in_epoch);
}

int64_t Sampler::samples_in_micro_batch(int64_t step_in_epoch, int64_t micro_batch) const {
  MT_CHECK(step_in_epoch >= 0 && micro_batch >= 0) << step_in_epoch << ", micro_batch " << micro_batch;
  return plan_.SamplesInMicroBatch(size_, step_in_epoch, micro_batch);
}

std::vector<int64_t> Sampler::MicroBatch(int64_t epoch, int64_t step_in_epoch, int64_t micro_batch) const {
  const int64_t count = samples_in_micro_batch(step_in_epoch, micro_batch);
  if (streams_) {
    // All earlier steps are full.
    const int64_t before = step_in_epoch * plan_.SamplesInMicroBatch(plan_.global_batch, 0, micro_batch);
    return count == 0 ? std::vector<int64_t>() : streams_->Samples(epoch, micro_batch, before, count);
  }
  std::vector<int64_t> ids(count);
  const int64_t first = step_in_epoch * plan_.global_batch + micro_batch * plan_.micro_batch;
  std::iota(ids.begin(), ids.end(), first);
  if (!shuffle_) return ids;
  const uint64_t key = NamedStream(seed_, "sampler").At(static_cast<uint64_t>(epoch));
  for (int64_t& id : ids) id = Permuted(key, size_, id);
  return ids;
}

std::vector<int64_t> Sampler::Step(int64_t epoch, int64_t step_in_epoch) const {
  std::vector<int64_t> ids;
  ids.reserve(samples_in_step(step_in_epoch));
  for (int64_t micro_batch = 0; micro_batch < plan_.micro_batches(); ++micro_batch) {
    const std::vector<int64_t> part = MicroBatch(epoch, step_in_epoch, micro_batch);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

absl::StatusOr<Shuffle> ParseShuffle(std::string_view text) {
  if (text == "true") return Shuffle::kFull;
  if (text == "false") return Shuffle::kNone;
  if (text == "streams") return Shuffle::kStreams;
  if (text == "fixed_streams") return Shuffle::kFixedStreams;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown order \"", std::string(text), "\": true, false, streams or fixed_streams"));
}

bool IsStreamed(Shuffle shuffle) { return shuffle == Shuffle::kStreams || shuffle == Shuffle::kFixedStreams; }

StreamShards ShardsInOrder(Shuffle shuffle, StreamShards shards) {
  shards.fixed = shuffle == Shuffle::kFixedStreams;
  return shards;
}

Sampler MakeSampler(uint64_t seed, BatchPlan plan, Shuffle shuffle, const StreamShards& shards) {
  if (IsStreamed(shuffle)) return Sampler(seed, plan, ShardsInOrder(shuffle, shards));
  const int64_t size = std::accumulate(shards.counts.begin(), shards.counts.end(), int64_t{0});
  return Sampler(seed, size, plan, shuffle == Shuffle::kFull);
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
