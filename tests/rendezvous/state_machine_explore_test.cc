// Every state a small cluster can reach in a bounded number of events, and long random walks of a larger one,
// against the list of properties. Seed of the walks: printed, or given as MTRUN_SEED.
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <random>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/posix.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/cluster_simulation.h"

namespace mtrun::rendezvous {
namespace {

struct Action {
  std::string name;
  std::function<void(ClusterSimulation&)> act;
};

std::vector<Action> ActionsOf(const std::string& node) {
  return {
      {"open " + node, [=](ClusterSimulation& w) { w.Open(node); }},
      {"offer " + node, [=](ClusterSimulation& w) { w.OfferFrom(node); }},
      {"stale offer " + node, [=](ClusterSimulation& w) { w.StaleOfferFrom(node); }},
      {"close " + node, [=](ClusterSimulation& w) { w.Close(node); }},
      {"fail " + node, [=](ClusterSimulation& w) { w.Fail(node); }},
      {"break " + node, [=](ClusterSimulation& w) { w.Break(node); }},
      {"finish " + node, [=](ClusterSimulation& w) { w.Finish(node); }},
      {"leave " + node, [=](ClusterSimulation& w) { w.Leave(node); }},
      {"wait " + node, [=](ClusterSimulation& w) { w.Wait(node, "key"); }},
  };
}

std::vector<Action> Actions(const std::vector<std::string>& nodes, bool trainer = false) {
  std::vector<Action> actions;
  for (const std::string& node : nodes) {
    for (Action& action : ActionsOf(node)) actions.push_back(std::move(action));
  }
  actions.push_back({"tick", [](ClusterSimulation& w) { w.TickAtDeadline(); }});
  actions.push_back({"beats", [nodes](ClusterSimulation& w) {
                       for (const std::string& node : nodes) w.Beat(node);
                     }});
  actions.push_back({"steps", [nodes](ClusterSimulation& w) {
                       const auto step = static_cast<int64_t>(2 * ToSeconds(w.now() - TimePoint()));
                       w.Say(nodes.front(), StepsCommitted{w.generation(), step});
                     }});
  for (const std::string& node : nodes) {
    // Only trainers have such a status.
    if (!trainer) break;
    actions.push_back({"wrong settings " + node, [=](ClusterSimulation& w) { w.Fail(node, 2); }});
  }
  actions.push_back({"set", [nodes](ClusterSimulation& w) { w.Set(nodes.front(), "key", "value"); }});
  return actions;
}

JobSettings Settings(int min_nodes, int max_nodes, int max_restarts) {
  JobSettings settings;
  settings.job_id = "job";
  settings.min_nodes = min_nodes;
  settings.max_nodes = max_nodes;
  settings.max_restarts = max_restarts;
  return settings;
}

struct Explored {
  size_t states = 0, transitions = 0;
  std::set<std::string> phases;
};

/// Breadth first from the world in which every node has joined (`from`), each distinct state once.
Explored Explore(const ClusterSimulation& from, const std::vector<std::string>& nodes, int depth) {
  struct Visit {
    ClusterSimulation world;
    std::vector<std::string> path;
  };
  const std::vector<Action> actions = Actions(nodes);
  std::unordered_set<std::string> seen = {from.Fingerprint()};
  std::deque<Visit> frontier = {{from, {}}};
  Explored explored;
  while (!frontier.empty()) {
    const Visit visit = std::move(frontier.front());
    frontier.pop_front();
    ++explored.states;
    explored.phases.insert(visit.world.machine().View(visit.world.now()).phase);
    if (visit.path.size() == static_cast<size_t>(depth)) continue;
    for (const Action& action : actions) {
      Visit next = visit;
      action.act(next.world);
      next.path.push_back(action.name);
      ++explored.transitions;
      if (next.world.broken()) {
        ADD_FAILURE() << *next.world.broken() << "\npath: " << absl::StrJoin(next.path, ", ");
        return explored;
      }
      if (next.world.machine().Gone()) continue;
      if (seen.insert(next.world.Fingerprint()).second) frontier.push_back(std::move(next));
    }
  }
  return explored;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLess = 2;  // instrumented code is ten times slower
#else
constexpr int kLess = 0;
#endif

TEST(StateMachineExploration, ThreeNodesFromNothing) {
  for (const auto& [min_nodes, max_nodes, restarts] :
       {std::tuple(1, 2, 1), std::tuple(2, 2, 0), std::tuple(2, 3, 1)}) {
    const Explored e = Explore(ClusterSimulation(Settings(min_nodes, max_nodes, restarts)),
                               {"node1", "node2", "node3"}, 7 - kLess);
    std::cout << "min " << min_nodes << " max " << max_nodes << " restarts " << restarts << ": " << e.states
              << " states, " << e.transitions << " transitions\n";
    EXPECT_GE(e.states, 50u);
  }
}

TEST(StateMachineExploration, ThreeNodesFromARunningJob) {
  for (const auto& [min_nodes, max_nodes, restarts] :
       {std::tuple(1, 2, 1), std::tuple(2, 2, 1), std::tuple(1, 3, 0)}) {
    ClusterSimulation world(Settings(min_nodes, max_nodes, restarts));
    for (const char* node : {"node1", "node2", "node3"}) world.Open(node), world.OfferFrom(node);
    ASSERT_EQ(world.machine().View(world.now()).phase, "running");
    const Explored e = Explore(world, {"node1", "node2", "node3"}, kLess > 0 ? 4 : 5);
    std::cout << "running, min " << min_nodes << " max " << max_nodes << " restarts " << restarts << ": "
              << e.states << " states, " << e.transitions << " transitions\n";
    EXPECT_TRUE(e.phases.contains("ended") && e.phases.contains("forming") && e.phases.contains("running"));
  }
}

uint64_t Seed() {
  const char* given = std::getenv("MTRUN_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : RandomBits();
}

TEST(StateMachineWalks, KeepEveryProperty) {
  const uint64_t seed = Seed();
  std::cout << "MTRUN_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  const int walks = kLess > 0 ? 60 : 400;
  size_t generations = 0, ended = 0;
  for (int walk = 0; walk < walks; ++walk) {
    const int min_nodes = 1 + static_cast<int>(random() % 3),
              max_nodes = min_nodes + static_cast<int>(random() % 3);
    JobSettings settings = Settings(min_nodes, max_nodes, static_cast<int>(random() % 4));
    settings.refund_steps = static_cast<int>(random() % 3);
    ClusterSimulation world(settings);
    std::vector<std::string> nodes;
    for (int i = 0; i < max_nodes + 2; ++i) nodes.push_back(absl::StrCat("node", i));
    const std::vector<Action> actions = Actions(nodes, settings.refund_steps > 0);
    std::vector<std::string> path;
    for (int i = 0; i < 250; ++i) {
      // Mostly progress: joins, offers and time; faults now and then, so that walks get far before the job
      // ends.
      const size_t node = random() % nodes.size();
      const size_t kind = random() % 20;
      if (kind < 3) {
        path.push_back(absl::StrCat("open+offer ", nodes[node]));
        world.Open(nodes[node]);
        world.OfferFrom(nodes[node], 1 + static_cast<int>(random() % 3));
      } else if (kind < 10) {
        path.push_back(absl::StrCat("offer ", nodes[node]));
        world.OfferFrom(nodes[node]);
      } else if (kind < 17) {
        path.push_back("advance");
        world.Advance(std::chrono::milliseconds(random() % 700));
      } else {
        const Action& action = actions[random() % actions.size()];
        path.push_back(action.name);
        action.act(world);
      }
      ASSERT_FALSE(world.broken()) << "seed " << seed << " walk " << walk << ": " << *world.broken()
                                   << "\npath: " << absl::StrJoin(path, ", ");
      if (!world.machine().Gone()) continue;
      generations += world.generation().number;
      ended += world.machine().outcome().has_value() ? 1 : 0;
      world = ClusterSimulation(settings);  // as the service does
    }
  }
  std::cout << generations << " generations, " << ended << " jobs ended in " << walks << " walks\n";
  EXPECT_GT(generations, static_cast<size_t>(walks));
  EXPECT_GT(ended, 0u);
}

}  // namespace
}  // namespace mtrun::rendezvous
