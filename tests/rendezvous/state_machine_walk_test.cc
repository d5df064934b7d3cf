// Random walks of larger clusters than the exploration can cover, against the same list of properties. The
// seed is printed, or given as MTRUN_SEED.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/posix.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/actions.h"
#include "tests/rendezvous/instrumented.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;

uint64_t Seed() {
  const char* given = std::getenv("MTRUN_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : RandomBits();
}

/// The first service of the list, mostly with all others gone, so that it has the job.
Action ProbeAtRandom(const JobSettings& settings, std::mt19937_64& random) {
  using State = PeerService::State;
  std::vector<PeerService> peers = {Peer(State::kSelf)};
  while (peers.size() < settings.endpoints.size()) {
    const State state = random() % 4 == 0 ? State::kSilent : State::kGone;
    peers.push_back(random() % 20 == 0 ? Peer(State::kWithJob, random() % 4, true) : Peer(state));
  }
  std::set<std::string> dead;
  if (random() % 2 == 0) dead.insert(absl::StrCat("node", random() % 5));
  return Look(settings, peers, dead);
}

std::vector<Action> ActionsOf(const JobSettings& settings, const std::vector<std::string>& nodes,
                              std::mt19937_64& random) {
  std::vector<Action> actions = EverydayActions(nodes);
  if (random() % 4 == 0) actions.push_back(StopJob(/*checkpoint=*/true));
  actions.push_back(DrainNode(nodes.front()));
  for (const std::string& node : nodes) {
    // Only trainers have such a status.
    if (settings.refund_steps > 0) actions.push_back(FailForSettings(node));
  }
  return actions;
}

TEST(StateMachineWalks, KeepEveryProperty) {
  const uint64_t seed = Seed();
  std::cout << "MTRUN_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  const int walks = kInstrumented ? 60 : 400;
  size_t generations = 0, ended = 0;
  for (int walk = 0; walk < walks; ++walk) {
    const int min_nodes = 1 + static_cast<int>(random() % 3),
              max_nodes = min_nodes + static_cast<int>(random() % 3);
    JobSettings settings = Settings(min_nodes, max_nodes, static_cast<int>(random() % 4));
    settings.refund_steps = static_cast<int>(random() % 3);
    if (random() % 4 == 0) settings.endpoints = Services(2 + static_cast<int>(random() % 2));
    const bool ordinary = random() % 3 == 0;
    if (ordinary) settings.ordinary_interval = seconds(1), settings.fence_timeout = seconds(4);
    const auto begin = [&] {
      ClusterSimulation fresh(settings);
      if (ordinary) fresh.RunOrdinary();
      return fresh;
    };
    ClusterSimulation world = begin();
    std::vector<std::string> nodes;
    for (int i = 0; i < max_nodes + 2; ++i) nodes.push_back(absl::StrCat("node", i));
    const std::vector<Action> actions = ActionsOf(settings, nodes, random);
    std::vector<std::string> path;
    for (int i = 0; i < 250; ++i) {
      // Mostly progress (joins, offers and time) and occasional faults, so that walks get far before the job
      // ends.
      const size_t node = random() % nodes.size();
      const size_t kind = random() % 20;
      if (kind < 3) {
        path.push_back(absl::StrCat("open+offer ", nodes[node]));
        world.Open(nodes[node]);
        world.OfferFrom(nodes[node], 1 + static_cast<int>(random() % 3), std::nullopt, random() % 2 == 0);
      } else if (kind < 10) {
        path.push_back(absl::StrCat("offer ", nodes[node]));
        world.OfferFrom(nodes[node]);
      } else if (kind == 10 && !settings.endpoints.empty()) {
        const Action probe = ProbeAtRandom(settings, random);
        path.push_back(probe.name);
        probe.act(world);
      } else if (kind == 11 && ordinary) {
        const bool silent = random() % 2 == 0;
        path.push_back(absl::StrCat(silent ? "silence " : "wake ", nodes[node]));
        silent ? world.Silence(nodes[node]) : world.Wake(nodes[node]);
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
      world = begin();  // as the service does
    }
  }
  std::cout << generations << " generations, " << ended << " jobs ended in " << walks << " walks\n";
  // Hosts that come back hold for their leases, so a walk may end before it forms a generation. If far fewer
  // walks formed one, the walks would prove nothing.
  EXPECT_GT(generations, static_cast<size_t>(walks) / 3);
  EXPECT_GT(ended, 0u);
}

}  // namespace
}  // namespace mtrun::rendezvous
