#include "trainers/parallel/partition.h"

#include <algorithm>

#include "base/status_macros.h"

namespace mtrun::trainers {

MicroBatchRange MicroBatchesOf(int64_t micro_batches, int rank, int world_size) {
  MT_CHECK(micro_batches >= 0 && rank >= 0 && rank < world_size)
      << "micro-batches " << micro_batches << " rank " << rank << " of " << world_size;
  const int64_t each = micro_batches / world_size;
  const int64_t larger = micro_batches % world_size;
  const int64_t begin = rank * each + std::min<int64_t>(rank, larger);
  return {begin, begin + each + (rank < larger ? 1 : 0)};
}

double MicroBatchWeight(int64_t samples_in_micro_batch, int64_t samples_in_step) {
  MT_CHECK(samples_in_step > 0 && samples_in_micro_batch >= 0 && samples_in_micro_batch <= samples_in_step)
      << samples_in_micro_batch << " of " << samples_in_step;
  return static_cast<double>(samples_in_micro_batch) / static_cast<double>(samples_in_step);
}

}  // namespace mtrun::trainers
