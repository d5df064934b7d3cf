// The order of a sum over the micro-batches of a step. Floating-point sums depend on their order, so it is a
// binary tree that depends on the number of micro-batches alone: whoever adds which part, the bits of the sum
// are the same. Values; pure.
//
// Leaf i is the contribution of micro-batch i. A node covers leaves [begin, end); its first half has one leaf
// more if their number is odd, as the shares of two workers have. Nothing is added for leaves that a short
// step leaves out: a node whose second half is left out is its first half. A worker adds what lies within its
// own leaves; the few nodes that then remain, its partial sums, are added by the owner of the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::collectives {

/// Leaves [begin, end).
struct LeafRange {
  int64_t begin = 0, end = 0;
  bool operator==(const LeafRange&) const = default;
};

/// What follows the contribution of one leaf, on a stack of sums: push it, then `additions` times replace the
/// two newest entries by their sum. If `partial` is not negative, the newest entry is then that partial sum.
struct LeafStep {
  int additions = 0;
  int partial = -1;
  bool operator==(const LeafStep&) const = default;
};

/// Returns the partial sums of a worker that has the leaves `own`, in order: the largest nodes that lie
/// within them. The first `filled` of all `leaves` exist.
std::vector<LeafRange> PartialSums(LeafRange own, int64_t leaves, int64_t filled);
/// Returns the steps of its existing leaves, in order.
std::vector<LeafStep> LeafSteps(LeafRange own, int64_t leaves, int64_t filled);

/// The sum of the partial sums of all ranks, which have `inputs` in the order of ranks.
struct TreePlan {
  /// Adds two inputs, or what is on the stack, and pushes the sum. If both are on the stack, `right` is
  /// newer.
  static constexpr int kStack = -1;
  struct Addition {
    int left = kStack, right = kStack;
    bool operator==(const Addition&) const = default;
  };

  int64_t leaves = 0, filled = 0;
  std::vector<int> partials;        // by rank: the number of its partial sums
  std::vector<Addition> additions;  // none if there is one input, which is the sum
  int depth = 0;                    // entries that the stack needs

  int inputs() const;
  int most_partials() const;
  /// A number other than 0, by which ranks compare their plans.
  uint32_t Digest() const;
  std::string Describe() const;
  bool operator==(const TreePlan&) const = default;
};

/// `ranges`: the leaves of each rank, which together are [0, leaves) in the order of ranks. REQUIRES: 1 <=
/// filled <= leaves.
TreePlan PlanTree(const std::vector<LeafRange>& ranges, int64_t leaves, int64_t filled);

/// Returns the maximum number of partial sums of any rank, whatever number of leaves exists.
int MostPartials(const std::vector<LeafRange>& ranges, int64_t leaves);

}  // namespace mtrun::collectives
