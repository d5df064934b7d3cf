#include "trainers/parallel/step_tree.h"

#include "trainers/parallel/partition.h"

namespace mtrun::trainers {
namespace {

std::vector<collectives::LeafRange> SharesOf(int64_t micro_batches, int world_size) {
  std::vector<collectives::LeafRange> shares;
  for (int rank = 0; rank < world_size; ++rank) {
    const MicroBatchRange range = MicroBatchesOf(micro_batches, rank, world_size);
    shares.push_back({range.begin, range.end});
  }
  return shares;
}

}  // namespace

StepTree TreeOf(int64_t micro_batches, int64_t filled, int rank, int world_size) {
  const std::vector<collectives::LeafRange> shares = SharesOf(micro_batches, world_size);
  return {collectives::LeafSteps(shares[static_cast<size_t>(rank)], micro_batches, filled),
          std::make_shared<collectives::TreePlan>(collectives::PlanTree(shares, micro_batches, filled))};
}

int MostPartialSums(int64_t micro_batches, int world_size) {
  return collectives::MostPartials(SharesOf(micro_batches, world_size), micro_batches);
}

}  // namespace mtrun::trainers
