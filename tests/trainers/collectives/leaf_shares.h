// The ranks' shares of a step's micro-batches, as trainers/parallel/partition.h has them.
#pragma once

#include <cstdint>
#include <vector>

#include "trainers/collectives/tree_sum.h"

namespace mtrun::collectives {

inline std::vector<LeafRange> LeafShares(int64_t leaves, int world) {
  std::vector<LeafRange> ranges;
  for (int64_t begin = 0, rank = 0; rank < world; ++rank) {
    const int64_t size = leaves / world + (rank < leaves % world ? 1 : 0);
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace mtrun::collectives
