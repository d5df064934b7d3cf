// The order in which a step's gradients are added: the tree over its micro-batches (tree_sum.h), as the
// workers share them. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainers/collectives/tree_sum.h"

namespace mtrun::trainers {

struct StepTree {
  std::vector<collectives::LeafStep> own;             // by this worker's pass
  std::shared_ptr<const collectives::TreePlan> plan;  // of the sum over the workers
};

/// `filled`: micro-batches of the step that have samples, of the `micro_batches` of a whole step.
StepTree TreeOf(int64_t micro_batches, int64_t filled, int rank, int world_size);

/// Returns how many partial sums a worker can have at most.
int MostPartialSums(int64_t micro_batches, int world_size);

}  // namespace mtrun::trainers
