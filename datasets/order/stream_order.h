// The streamed order of samples (docs/formats.md, "Streams"): a node that computes certain micro-batches
// needs about its share of the shards, a few at a time. A pure function of (seed, epoch, batch plan, sizes of
// shards), independent of the cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/order/batch_plan.h"

namespace mtrun::datasets {

/// Number of shards that a stream mixes at a time by default.
inline constexpr int64_t kStreamWindow = 8;

/// The parameters of a streamed order besides seed and batches.
struct StreamShards {
  std::vector<int64_t> counts;  // samples in each shard, in the order of the files
  int64_t window = kStreamWindow;
  bool fixed = false;  // a stream has the same shards in every epoch, in another order
  bool operator==(const StreamShards&) const = default;
};

/// Samples first .. first + count - 1 of the data set, which are all in one shard.
struct ShardPart {
  int64_t shard = 0, first = 0, count = 0;
  bool operator==(const ShardPart&) const = default;
};

/// All shards, each once, in the order in which a node needs them.
struct ShardsAhead {
  std::vector<int64_t> this_epoch;
  std::vector<int64_t> later;  // in the next epoch, then those of other streams in file order
  bool operator==(const ShardsAhead&) const = default;
};

/// A value. Const methods are thread-safe and take O(shards).
class StreamOrder {
 public:
  /// REQUIRES: counts are not negative, one is positive; shards.window >= 1.
  StreamOrder(uint64_t seed, BatchPlan plan, StreamShards shards);

  int64_t size() const { return size_; }
  /// Returns the number of samples of stream v per epoch: all that micro-batch v of its steps draws.
  int64_t SamplesOf(int64_t stream) const;
  /// Returns the stream's contents in this epoch, in reading order: non-empty parts of permuted shards. Each
  /// `window` of them are mixed, then the next.
  std::vector<ShardPart> Parts(int64_t epoch, int64_t stream) const;
  /// Returns the ids at positions first .. first + count - 1 of the stream. REQUIRES: they exist.
  std::vector<int64_t> Samples(int64_t epoch, int64_t stream, int64_t first, int64_t count) const;
  /// Returns the shards in the order in which micro-batches begin .. end - 1 need them from this step on.
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
