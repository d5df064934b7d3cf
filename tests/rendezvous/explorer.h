// Visits every world that a small cluster can reach in a bounded number of actions, each distinct one once.
// Worlds are compared completely, times included. Equal worlds behave the same from there on, so skipping one
// of them hides nothing.
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
  size_t states = 0, transitions = 0;    // distinct states that were expanded
  std::map<std::string, size_t> phases;  // phase -> number of states in it
  std::map<std::string, size_t> seen;    // goal -> transitions with an effect that contains it
  std::string broken;                    // the first broken property and the path to it; "" for none
};

/// Explores breadth first from `from`, `depth` actions deep (at least one); stops at the first broken
/// property. `goals`: parts of effects' texts to be counted.
Explored Explore(const ClusterSimulation& from, const std::vector<Action>& actions, int depth,
                 const std::vector<std::string>& goals = {});

}  // namespace mtrun::rendezvous
