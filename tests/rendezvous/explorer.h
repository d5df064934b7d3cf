// Every world that a small cluster can reach in a bounded number of actions, each distinct one once. Worlds
// are compared whole, times included: two that are equal behave alike from there on, so leaving one of them
// out hides nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/rendezvous/cluster_simulation.h"

namespace mtrun::rendezvous {

struct Action {
  std::string name;
  /// Returns the effects as text lines.
  std::function<std::vector<std::string>(ClusterSimulation&)> act;
};

struct Explored {
  size_t states = 0, transitions = 0;    // states that were gone on from, distinct ones
  std::map<std::string, size_t> phases;  // phase -> of those, in it
  std::map<std::string, size_t> seen;    // goal -> transitions with an effect that contains it
  std::string broken;                    // the first broken property and the path to it, "" for none
};

/// Breadth first from `from`, `depth` actions (at least one) deep; stops at the first broken property.
/// `goals` are parts of effects' texts that are to be counted.
Explored Explore(const ClusterSimulation& from, const std::vector<Action>& actions, int depth,
                 const std::vector<std::string>& goals = {});

}  // namespace mtrun::rendezvous
