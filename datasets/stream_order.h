// The streamed order of samples (docs/formats.md, "Streams"): whoever computes certain micro-batches needs
// about its share of the shards, a few at a time. A pure function of (seed, epoch, batch plan, counts of
// shards), never of the cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/batch_plan.h"

namespace mtrun::datasets {

/// Shards that a stream mixes at a time, unless settings say otherwise.
inline constexpr int64_t kStreamWindow = 8;

/// What a streamed order is made of beside seed and batches.
struct StreamShards {
  std::vector<int64_t> counts;  // samples of each shard, in the order of the files
  int64_t window = kStreamWindow;
  bool fixed = false;  // a stream has the same shards in every epoch, in another order
  bool operator==(const StreamShards&) const = default;
};

/// Samples first .. first + count - 1 of the data set, which lie in one shard.
struct ShardPart {
  int64_t shard = 0, first = 0, count = 0;
  bool operator==(const ShardPart&) const = default;
};

/// All shards, each once, in the order in which somebody needs them.
struct ShardsAhead {
  std::vector<int64_t> this_epoch;
  std::vector<int64_t> later;  // in the next epoch, then those of others as they lie
  bool operator==(const ShardsAhead&) const = default;
};

/// Value; const methods are thread-safe and take O(shards).
class StreamOrder {
 public:
  /// REQUIRES: counts are not negative, one is positive; shards.window >= 1.
  StreamOrder(uint64_t seed, BatchPlan plan, StreamShards shards);

  int64_t size() const { return size_; }
  /// Of stream v, from which micro-batch v of every step draws: the samples that it has in an epoch, which
  /// are as many as that micro-batch needs.
  int64_t SamplesOf(int64_t stream) const;
  /// What the stream consists of in this epoch, in the order in which it is read: parts of permuted shards,
  /// none empty. Each `window` of them are mixed, then the next.
  std::vector<ShardPart> Parts(int64_t epoch, int64_t stream) const;
  /// The ids at positions first .. first + count - 1 of the stream. REQUIRES: they are there.
  std::vector<int64_t> Samples(int64_t epoch, int64_t stream, int64_t first, int64_t count) const;
  /// As whoever computes micro-batches begin .. end - 1 needs them from this step of this epoch on.
  ShardsAhead Ahead(int64_t epoch, int64_t step_in_epoch, int64_t begin, int64_t end) const;

 private:
  int64_t Before(int64_t stream) const;
  std::vector<ShardPart> Mixed(std::vector<ShardPart> parts, int64_t epoch, int64_t stream) const;
  std::vector<int64_t> Needs(int64_t epoch, int64_t from_step, int64_t begin, int64_t end) const;

  uint64_t seed_;
  BatchPlan plan_;
  StreamShards shards_;
  int64_t size_ = 0;
};

}  // namespace mtrun::datasets
