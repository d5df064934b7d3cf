// How hosts share the additions of a sum: a host adds what is a node of the tree within the inputs of its own
// ranks, so that only these partial sums cross the network, each part of them once. Values; pure.
//
// The elements of a block are divided among the hosts, and the share of each host among its ranks: a rank
// owns its share and computes its sum. A rank carries, for every other host, one slice of that host's share:
// it adds its own host's inputs there, sends the partial sums to the owners, and receives the sums from them,
// which its host's other ranks then read. The slices of a host are equal, so all its ranks send equally much;
// between hosts of unequal size a slice meets several owners.
#pragma once

#include <cstddef>
#include <vector>

#include "trainers/collectives/host_map.h"
#include "trainers/collectives/reduce.h"
#include "trainers/collectives/tree_sum.h"

namespace mtrun::collectives {

/// One partial sum of a host.
struct HostPartial {
  int number = 0;           // its place among the inputs of the last sum
  std::vector<int> inputs;  // of the whole sum (TreePlan), in the order of `plan`
  TreePlan plan;            // without additions if there is one input
  bool operator==(const HostPartial&) const = default;
};

struct HostSum {
  std::vector<std::vector<HostPartial>> hosts;
  TreePlan last;  // adds the partial sums of all hosts

  int inputs() const;
  bool operator==(const HostSum&) const = default;
};

/// Returns the fewest partial sums from which the last sum has the bits of `plan`. If `adds` is false, hosts
/// add nothing: each input is a partial sum of its own number, and `last` is unused.
HostSum PlanHosts(const TreePlan& plan, const HostMap& map, bool adds);

/// Elements that two ranks of different hosts exchange.
struct Piece {
  int peer = 0;
  Chunk chunk;
  bool operator==(const Piece&) const = default;
};

/// One rank's part of a block. A piece is among the carried ones of one rank and the met ones of the other.
struct BlockShare {
  Chunk owned;
  std::vector<Piece> carried;  // sends partial sums to the peer, receives the sum; in the order of elements
  std::vector<Piece> met;      // parts of `owned`: receives partial sums from the peer, sends the sum
  bool operator==(const BlockShare&) const = default;
};

/// Returns the part of `rank` in a block of `count` elements. Empty pieces are left out.
BlockShare ShareOf(const HostMap& map, int rank, size_t count, size_t element_size);

}  // namespace mtrun::collectives
