#include "trainers/checkpoints/lineage.h"

#include <algorithm>
#include <iterator>

namespace mtrun::checkpoints {

void Extend(Lineage& lineage, uint64_t generation, int64_t step) {
  if (!lineage.empty() && lineage.back().generation == generation) return;
  lineage.push_back({generation, step});
  if (lineage.size() > kMaxLineageEntries) lineage.erase(lineage.begin());
}

bool Descends(const Lineage& lineage, const Position& position) {
  if (position.steps == 0 || lineage.empty()) return true;
  const auto after = std::find_if(lineage.begin(), lineage.end(),
                                  [&](const LineageEntry& entry) { return entry.from >= position.steps; });
  if (after == lineage.begin()) return position.generation < lineage.front().generation;
  return position.generation == std::prev(after)->generation;
}

}  // namespace mtrun::checkpoints
