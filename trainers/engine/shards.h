// Which shards (micro-batches) of a step each worker computes. Pure functions: the world size is only ever an
// argument.
#pragma once

#include <cstdint>

namespace mtrun::engine {

/// Shards [begin, end) of one worker; empty for an idle member.
struct ShardRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const ShardRange&) const = default;
};

/// Contiguous ranges in the order of ranks, sizes differing by at most one, the larger ones first; with more
/// workers than shards the last workers get none. REQUIRES: shards >= 0, 0 <= rank < world_size.
ShardRange ShardsOf(int64_t shards, int rank, int world_size);

/// What a shard's mean loss is multiplied by so that the sum over all shards is the mean over the step:
/// n_shard / N.
double ShardWeight(int64_t samples_in_shard, int64_t samples_in_step);

}  // namespace mtrun::engine
