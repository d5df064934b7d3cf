// The arithmetic of an all-reduce: pure loops over memory.
#pragma once

#include <cstddef>
#include <vector>

#include "trainers/collectives/tree_sum.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

/// Computes output[i] = ((in[0][i] op in[1][i]) op in[2][i]) ... in the order of `inputs`. The same inputs
/// give the same bits on every machine, on every rank and in every run. bfloat16 is accumulated in float32
/// and rounded once (to nearest, ties to even); kAverage divides by inputs.size() at the end; integers wrap
/// around; kMax and kMin keep NaNs. `output` may be exactly one of the inputs, but must not overlap any of
/// them otherwise. REQUIRES: at least one input.
void Reduce(DataType dtype, ReduceOp op, const std::vector<const void*>& inputs, void* output, size_t count);

/// Returns true if the reduction must take all inputs at once, with Reduce: sums of bfloat16.
bool RoundsOnce(DataType dtype, ReduceOp op);
/// Reduces plan.inputs() inputs in the order of the plan, each addition rounded to `dtype`, as the ranks round
/// their own. kAverage: the sum, which Divide ends. `output` as above. REQUIRES: !RoundsOnce(dtype, op).
void ReduceTree(DataType dtype, ReduceOp op, const TreePlan& plan, const std::vector<const void*>& inputs,
                void* output, size_t count);
/// Divides the elements by `divisor`. REQUIRES: kFloat32 or kFloat64.
void Divide(DataType dtype, void* data, size_t count, int divisor);

/// Elements [begin, end) of `count` that rank `rank` of `world` sums. Chunks are equal pieces, rounded up to
/// whole cache lines so that two ranks never write the same line; the last ones may be short or empty.
struct Chunk {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Chunk&) const = default;
};
Chunk ChunkOf(size_t count, size_t element_size, int rank, int world);

}  // namespace mtrun::collectives
