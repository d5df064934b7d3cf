// Assigns the micro-batches of a step to workers. Pure functions: the world size is only ever an argument.
#pragma once

#include <cstdint>

namespace mtrun::trainers {

/// Micro-batches [begin, end) of one worker; empty for an idle member.
struct MicroBatchRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const MicroBatchRange&) const = default;
};

/// Returns a worker's micro-batches: contiguous ranges in the order of ranks, sizes differing by at most one,
/// the larger ones first. If there are more workers than micro-batches, the last workers get none. REQUIRES:
/// micro_batches >= 0, 0 <= rank < world_size.
MicroBatchRange MicroBatchesOf(int64_t micro_batches, int rank, int world_size);

/// Returns n_micro_batch / N: with these weights the sum of all micro-batches' mean losses is the step's
/// mean.
double MicroBatchWeight(int64_t samples_in_micro_batch, int64_t samples_in_step);

}  // namespace mtrun::trainers
