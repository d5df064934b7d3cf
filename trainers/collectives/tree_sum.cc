#include "trainers/collectives/tree_sum.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

int64_t MiddleOf(int64_t begin, int64_t end) { return begin + (end - begin + 1) / 2; }

/// Appends the largest nodes within [begin, end) of which all existing leaves are in `own`.
void Cover(int64_t begin, int64_t end, LeafRange own, int64_t filled, std::vector<LeafRange>* nodes) {
  const int64_t last = std::min(end, filled);
  if (begin >= last || begin >= own.end || last <= own.begin) return;
  if (own.begin <= begin && last <= own.end) return nodes->push_back({begin, end});
  Cover(begin, MiddleOf(begin, end), own, filled, nodes);
  Cover(MiddleOf(begin, end), end, own, filled, nodes);
}

std::vector<LeafRange> NodesOf(LeafRange own, int64_t leaves, int64_t filled) {
  std::vector<LeafRange> nodes;
  Cover(0, leaves, own, filled, &nodes);
  return nodes;
}

/// Appends the steps that add up the existing leaves of a node.
void Walk(LeafRange node, int64_t filled, std::vector<LeafStep>* steps) {
  if (node.end - node.begin == 1) return steps->push_back({});
  const int64_t middle = MiddleOf(node.begin, node.end);
  Walk({node.begin, middle}, filled, steps);
  if (middle >= filled) return;
  Walk({middle, node.end}, filled, steps);
  ++steps->back().additions;
}

/// Writes the additions of a plan, whose inputs are the partial sums of all ranks.
class Planner {
 public:
  Planner(std::map<int64_t, std::pair<int64_t, int>> inputs, TreePlan* plan)
      : inputs_(std::move(inputs)), plan_(plan) {}

  /// Returns the input that is the node, or kStack after the additions that push it, or kNone if none of its
  /// leaves exists.
  int Add(int64_t begin, int64_t end) {
    const int64_t last = std::min(end, plan_->filled);
    if (begin >= last) return kNone;
    const auto input = inputs_.find(begin);
    if (input != inputs_.end() && input->second.first == last) return input->second.second;
    MT_CHECK(end - begin > 1) << "leaf " << begin << " belongs to no rank: " << plan_->Describe();
    const int left = Add(begin, MiddleOf(begin, end)), right = Add(MiddleOf(begin, end), end);
    if (right == kNone) return left;
    plan_->additions.push_back({left, right});
    held_ += 1 - (left == TreePlan::kStack ? 1 : 0) - (right == TreePlan::kStack ? 1 : 0);
    plan_->depth = std::max(plan_->depth, held_);
    return TreePlan::kStack;
  }

 private:
  static constexpr int kNone = -2;
  const std::map<int64_t, std::pair<int64_t, int>> inputs_;  // by first leaf: the end, and the input's number
  TreePlan* const plan_;
  int held_ = 0;
};

}  // namespace

std::vector<LeafRange> PartialSums(LeafRange own, int64_t leaves, int64_t filled) {
  std::vector<LeafRange> partials = NodesOf(own, leaves, filled);
  for (LeafRange& node : partials) node.end = std::min(node.end, filled);
  return partials;
}

std::vector<LeafStep> LeafSteps(LeafRange own, int64_t leaves, int64_t filled) {
  std::vector<LeafStep> steps;
  int partial = 0;
  for (const LeafRange& node : NodesOf(own, leaves, filled)) {
    Walk(node, filled, &steps);
    steps.back().partial = partial++;
  }
  return steps;
}

int TreePlan::inputs() const { return std::accumulate(partials.begin(), partials.end(), 0); }

int TreePlan::most_partials() const {
  return partials.empty() ? 0 : *std::max_element(partials.begin(), partials.end());
}

uint32_t TreePlan::Digest() const {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  const auto mix = [&hash](int64_t value) {
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (static_cast<uint64_t>(value) >> (8 * byte) & 0xff)) * 1099511628211ull;
  };
  mix(leaves);
  mix(filled);
  for (const int count : partials) mix(count);
  for (const Addition& addition : additions) mix(addition.left), mix(addition.right);
  return static_cast<uint32_t>(hash ^ hash >> 32) | 1;
}

std::string TreePlan::Describe() const {
  return absl::StrCat(filled, " of ", leaves, " micro-batches, partial sums by rank ",
                      absl::StrJoin(partials, ","), ", ", additions.size(), " additions");
}

TreePlan PlanTree(const std::vector<LeafRange>& ranges, int64_t leaves, int64_t filled) {
  MT_CHECK(filled >= 1 && filled <= leaves) << filled << " of " << leaves << " micro-batches";
  TreePlan plan;
  plan.leaves = leaves;
  plan.filled = filled;
  std::map<int64_t, std::pair<int64_t, int>> inputs;
  for (const LeafRange& range : ranges) {
    const std::vector<LeafRange> own = PartialSums(range, leaves, filled);
    plan.partials.push_back(static_cast<int>(own.size()));
    for (const LeafRange& node : own)
      inputs.insert({node.begin, {node.end, static_cast<int>(inputs.size())}});
  }
  Planner(std::move(inputs), &plan).Add(0, leaves);
  return plan;
}

int MostPartials(const std::vector<LeafRange>& ranges, int64_t leaves) {
  size_t most = 1;
  for (const LeafRange& range : ranges) {
    // Leaves beyond the first one that follows the range change nothing for it.
    for (int64_t filled = range.begin + 1; filled <= std::min(range.end + 1, leaves); ++filled)
      most = std::max(most, PartialSums(range, leaves, filled).size());
  }
  return static_cast<int>(most);
}

}  // namespace mtrun::collectives
