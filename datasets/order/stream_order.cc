#include "datasets/order/stream_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/splitmix.h"
#include "base/status_macros.h"
#include "datasets/order/permutation.h"

namespace mtrun::datasets {
namespace {

/// A window of a stream: the permuted samples of some parts.
struct Window {
  const ShardPart* begin = nullptr;
  const ShardPart* end = nullptr;
  int64_t size = 0;
  uint64_t key = 0;

  int64_t IdAt(int64_t position) const {
    int64_t at = Permuted(key, size, position);
    const ShardPart* part = begin;
    for (; at >= part->count; ++part) at -= part->count;
    return part->first + at;
  }
};

/// Cuts the parts into windows.
std::vector<Window> WindowsOf(const std::vector<ShardPart>& parts, int64_t length, uint64_t stream_key) {
  std::vector<Window> windows;
  const auto count = static_cast<int64_t>(parts.size());
  for (int64_t begin = 0; begin < count; begin += length) {
    const int64_t end = std::min(count, begin + length);
    Window window{parts.data() + begin, parts.data() + end, 0, SplitMix64(stream_key + windows.size())};
    for (const ShardPart* part = window.begin; part != window.end; ++part) window.size += part->count;
    windows.push_back(window);
  }
  return windows;
}

}  // namespace

StreamOrder::StreamOrder(uint64_t seed, BatchPlan plan, StreamShards shards)
    : seed_(seed), plan_(plan), shards_(std::move(shards)) {
  MT_CHECK(shards_.window >= 1) << "window " << shards_.window;
  for (const int64_t count : shards_.counts) {
    MT_CHECK(count >= 0) << "a shard of " << count << " samples";
    size_ += count;
  }
  MT_CHECK(size_ >= 1) << "no samples";
}

/// Returns the number of samples in the streams before this one. In full steps, micro-batch v takes samples v
/// b to (v + 1) b of the B samples; in a short last step, those of them that exist.
int64_t StreamOrder::Before(int64_t stream) const {
  const int64_t whole = size_ / plan_.global_batch, rest = size_ % plan_.global_batch;
  const int64_t end = stream * plan_.micro_batch;
  return whole * std::min(end, plan_.global_batch) + std::min(end, rest);
}

int64_t StreamOrder::SamplesOf(int64_t stream) const { return Before(stream + 1) - Before(stream); }

std::vector<ShardPart> StreamOrder::Parts(int64_t epoch, int64_t stream) const {
  const auto count = static_cast<int64_t>(shards_.counts.size());
  const uint64_t key = NamedStream(seed_, "shards").At(shards_.fixed ? 0 : static_cast<uint64_t>(epoch));
  std::vector<int64_t> first(shards_.counts.size());  // first sample of each shard
  for (size_t i = 1; i < first.size(); ++i) first[i] = first[i - 1] + shards_.counts[i - 1];
  const int64_t begin = Before(stream), end = Before(stream + 1);
  std::vector<ShardPart> parts;
  int64_t at = 0;  // position in the concatenation of the permuted shards
  for (int64_t i = 0; i < count && at < end; ++i) {
    const int64_t shard = Permuted(key, count, i), samples = shards_.counts[shard];
    const int64_t from = std::max(begin, at), to = std::min(end, at + samples);
    if (from < to) parts.push_back({shard, first[shard] + from - at, to - from});
    at += samples;
  }
  return shards_.fixed ? Mixed(std::move(parts), epoch, stream) : parts;
}

/// Permutes the parts: otherwise the same parts would share a window in every epoch.
std::vector<ShardPart> StreamOrder::Mixed(std::vector<ShardPart> parts, int64_t epoch, int64_t stream) const {
  const uint64_t epoch_key = NamedStream(seed_, "parts").At(static_cast<uint64_t>(epoch));
  const uint64_t key = SplitMix64(epoch_key + static_cast<uint64_t>(stream));
  const auto count = static_cast<int64_t>(parts.size());
  std::vector<ShardPart> mixed;
  mixed.reserve(parts.size());
  for (int64_t i = 0; i < count; ++i) mixed.push_back(parts[static_cast<size_t>(Permuted(key, count, i))]);
  return mixed;
}

std::vector<int64_t> StreamOrder::Samples(int64_t epoch, int64_t stream, int64_t first, int64_t count) const {
  MT_CHECK(first >= 0 && first + count <= SamplesOf(stream))
      << first << " + " << count << " of " << SamplesOf(stream);
  const std::vector<ShardPart> parts = Parts(epoch, stream);
  const uint64_t epoch_key = NamedStream(seed_, "windows").At(static_cast<uint64_t>(epoch));
  std::vector<int64_t> ids;
  ids.reserve(count);
  for (const Window& window :
       WindowsOf(parts, shards_.window, SplitMix64(epoch_key + static_cast<uint64_t>(stream)))) {
    for (; first < window.size && count > 0; ++first, --count) ids.push_back(window.IdAt(first));
    first -= window.size;
    if (count == 0) break;
  }
  return ids;
}

/// Returns the shards that these streams read from this step on, the earliest first; a shard may be repeated.
/// Within a window, any sample may come first.
std::vector<int64_t> StreamOrder::Needs(int64_t epoch, int64_t from_step, int64_t begin, int64_t end) const {
  std::vector<std::pair<int64_t, int64_t>> needs;  // step, shard
  for (int64_t stream = begin; stream < end; ++stream) {
    const int64_t each =
        std::min(plan_.micro_batch, plan_.global_batch - stream * plan_.micro_batch);  // samples per step
    const std::vector<ShardPart> parts = Parts(epoch, stream);
    int64_t at = 0;
    for (const Window& window : WindowsOf(parts, shards_.window, 0)) {
      const int64_t first = at / each, last = (at + window.size - 1) / each;
      at += window.size;
      if (last < from_step) continue;
      for (const ShardPart* part = window.begin; part != window.end; ++part)
        needs.emplace_back(std::max(first, from_step), part->shard);
    }
  }
  std::stable_sort(needs.begin(), needs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int64_t> shards;
  for (const auto& [step, shard] : needs) shards.push_back(shard);
  return shards;
}

ShardsAhead StreamOrder::Ahead(int64_t epoch, int64_t step_in_epoch, int64_t begin, int64_t end) const {
  ShardsAhead ahead;
  std::vector<bool> seen(shards_.counts.size());
  const auto add = [&](const std::vector<int64_t>& shards, std::vector<int64_t>& to) {
    for (const int64_t shard : shards) {
      if (!seen[static_cast<size_t>(shard)]) to.push_back(shard);
      seen[static_cast<size_t>(shard)] = true;
    }
  };
  std::vector<int64_t> all(shards_.counts.size());
  std::iota(all.begin(), all.end(), 0);
  add(Needs(epoch, step_in_epoch, begin, end), ahead.this_epoch);
  add(Needs(epoch + 1, 0, begin, end), ahead.later);
  add(all, ahead.later);
  return ahead;
}

}  // namespace mtrun::datasets
