#include "trainers/engine/shards.h"

#include <algorithm>

#include "base/status_macros.h"

namespace mtrun::engine {

ShardRange ShardsOf(int64_t shards, int rank, int world_size) {
  MT_CHECK(shards >= 0 && rank >= 0 && rank < world_size)
      << "shards " << shards << " rank " << rank << " of " << world_size;
  const int64_t each = shards / world_size;
  const int64_t larger = shards % world_size;
  const int64_t begin = rank * each + std::min<int64_t>(rank, larger);
  return {begin, begin + each + (rank < larger ? 1 : 0)};
}

double ShardWeight(int64_t samples_in_shard, int64_t samples_in_step) {
  MT_CHECK(samples_in_step > 0 && samples_in_shard >= 0 && samples_in_shard <= samples_in_step)
      << samples_in_shard << " of " << samples_in_step;
  return static_cast<double>(samples_in_shard) / static_cast<double>(samples_in_step);
}

}  // namespace mtrun::engine
