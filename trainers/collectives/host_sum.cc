#include "trainers/collectives/host_sum.h"

#include <algorithm>
#include <functional>

namespace mtrun::collectives {
namespace {

constexpr int kSeveral = -1;

/// A node of the tree whose leaves are the inputs of a plan.
struct SumNode {
  int host = kSeveral;  // of all inputs below
  int left = -1, right = -1, input = -1;
};

/// Returns the nodes of a plan, the inputs first; the last one is the sum.
std::vector<SumNode> SumNodesOf(const TreePlan& plan, const HostMap& map) {
  std::vector<SumNode> nodes;
  for (size_t rank = 0; rank < plan.partials.size(); ++rank) {
    for (int part = 0; part < plan.partials[rank]; ++part)
      nodes.push_back({.host = map.host_of[rank], .input = static_cast<int>(nodes.size())});
  }
  std::vector<int> stack;
  const auto take = [&stack](int from) {
    if (from != TreePlan::kStack) return from;
    const int top = stack.back();
    stack.pop_back();
    return top;
  };
  for (const TreePlan::Addition& addition : plan.additions) {
    const int right = take(addition.right), left = take(addition.left);
    const int of_left = nodes[static_cast<size_t>(left)].host,
              of_right = nodes[static_cast<size_t>(right)].host;
    stack.push_back(static_cast<int>(nodes.size()));
    nodes.push_back({.host = of_left == of_right ? of_left : kSeveral, .left = left, .right = right});
  }
  return nodes;
}

/// Writes the additions below a node as a plan whose inputs are the nodes that `number_of` numbers.
class SumWriter {
 public:
  using NumberOf = std::function<int(const SumNode&)>;  // -1: not an input
  SumWriter(const std::vector<SumNode>& nodes, const NumberOf& number_of, TreePlan* plan)
      : nodes_(nodes), number_of_(number_of), plan_(plan) {}

  int Write(int at) {
    const SumNode& node = nodes_[static_cast<size_t>(at)];
    if (const int number = number_of_(node); number >= 0) return number;
    const int left = Write(node.left), right = Write(node.right);
    plan_->additions.push_back({left, right});
    held_ += 1 - (left == TreePlan::kStack ? 1 : 0) - (right == TreePlan::kStack ? 1 : 0);
    plan_->depth = std::max(plan_->depth, held_);
    return TreePlan::kStack;
  }

 private:
  const std::vector<SumNode>& nodes_;
  const NumberOf& number_of_;
  TreePlan* const plan_;
  int held_ = 0;
};

HostPartial PartialOf(const std::vector<SumNode>& nodes, const SumNode& node, const TreePlan& whole) {
  HostPartial partial;
  partial.plan.leaves = whole.leaves;
  partial.plan.filled = whole.filled;
  const SumWriter::NumberOf number_of = [&partial](const SumNode& below) {
    if (below.input < 0) return -1;
    partial.inputs.push_back(below.input);
    return static_cast<int>(partial.inputs.size()) - 1;
  };
  SumWriter(nodes, number_of, &partial.plan).Write(static_cast<int>(&node - nodes.data()));
  partial.plan.partials = {static_cast<int>(partial.inputs.size())};
  return partial;
}

Chunk PartOf(const Chunk& whole, size_t element_size, int index, size_t parts) {
  const Chunk part = ChunkOf(whole.size(), element_size, index, static_cast<int>(parts));
  return {whole.begin + part.begin, whole.begin + part.end};
}

/// Calls `use(peer, chunk)` for each part of the share `whole` of the host of `owners` that `carrier`'s slice has in
/// common with an owner.
template <typename Use>
void ForEachPiece(const Chunk& whole, size_t element_size, int carrier, size_t carriers, size_t owners,
                  const Use& use) {
  const Chunk slice = PartOf(whole, element_size, carrier, carriers);
  for (size_t owner = 0; owner < owners; ++owner) {
    const Chunk owned = PartOf(whole, element_size, static_cast<int>(owner), owners);
    const Chunk both = {std::max(slice.begin, owned.begin), std::min(slice.end, owned.end)};
    if (both.begin < both.end) use(owner, both);
  }
}

}  // namespace

int HostSum::inputs() const {
  size_t inputs = 0;
  for (const std::vector<HostPartial>& partials : hosts) inputs += partials.size();
  return static_cast<int>(inputs);
}

HostSum PlanHosts(const TreePlan& plan, const HostMap& map, bool adds) {
  const std::vector<SumNode> nodes = SumNodesOf(plan, map);
  HostSum sum;
  sum.hosts.resize(map.ranks_of.size());
  sum.last.leaves = plan.leaves;
  sum.last.filled = plan.filled;
  const SumWriter::NumberOf number_of = [&](const SumNode& node) {
    if (node.host == kSeveral || (!adds && node.input < 0)) return -1;
    HostPartial partial = PartialOf(nodes, node, plan);
    partial.number = adds ? sum.inputs() : node.input;
    sum.hosts[static_cast<size_t>(node.host)].push_back(std::move(partial));
    return sum.hosts[static_cast<size_t>(node.host)].back().number;
  };
  SumWriter(nodes, number_of, &sum.last).Write(static_cast<int>(nodes.size()) - 1);
  for (const std::vector<HostPartial>& partials : sum.hosts)
    sum.last.partials.push_back(static_cast<int>(partials.size()));
  return sum;
}

BlockShare ShareOf(const HostMap& map, int rank, size_t count, size_t element_size) {
  const int own = map.host_of[static_cast<size_t>(rank)], index = map.index_of[static_cast<size_t>(rank)];
  const size_t ranks = map.with(rank).size();
  const auto share = [&](int host) { return ChunkOf(count, element_size, host, map.hosts()); };
  BlockShare block;
  block.owned = PartOf(share(own), element_size, index, ranks);
  for (int host = 0; host < map.hosts(); ++host) {
    if (host == own) continue;
    const std::vector<int>& theirs = map.ranks_of[static_cast<size_t>(host)];
    ForEachPiece(share(host), element_size, index, ranks, theirs.size(),
                 [&](size_t owner, const Chunk& chunk) {
                   block.carried.push_back({theirs[owner], chunk});
                 });
    for (size_t carrier = 0; carrier < theirs.size(); ++carrier) {
      ForEachPiece(share(own), element_size, static_cast<int>(carrier), theirs.size(), ranks,
                   [&](size_t owner, const Chunk& chunk) {
                     if (owner == static_cast<size_t>(index)) block.met.push_back({theirs[carrier], chunk});
                   });
    }
  }
  return block;
}

}  // namespace mtrun::collectives
