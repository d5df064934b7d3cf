// Which micro-batches of a step each worker computes. Pure functions: the world size is only ever an
// argument.
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

/// Contiguous ranges in the order of ranks, sizes differing by at most one, the larger ones first; with more
/// workers than micro-batches the last workers get none. REQUIRES: micro_batches >= 0, 0 <= rank <
/// world_size.
MicroBatchRange MicroBatchesOf(int64_t micro_batches, int rank, int world_size);

/// What a micro-batch's mean loss is multiplied by so that the sum over all micro-batches is the mean over
/// the step: n_micro_batch / N.
double MicroBatchWeight(int64_t samples_in_micro_batch, int64_t samples_in_step);

}  // namespace mtrun::trainers
