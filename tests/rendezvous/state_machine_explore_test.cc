// Checks every state that a small cluster can reach in a bounded number of events against the list of
// properties, with one setting for each situation of a job. A setting names the effects that it must reach,
// and fails if it does not.
#include <chrono>
#include <iostream>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/actions.h"
#include "tests/rendezvous/explorer.h"
#include "tests/rendezvous/instrumented.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = PeerService::State;
using Nodes = std::vector<std::string>;
using Actions = std::vector<Action>;

constexpr int kLess = kInstrumented ? 1 : 0;  // instrumented code is ten times slower

/// Explores, prints the result, and fails for a broken property or a goal that was never reached.
Explored Check(const std::string& name, const ClusterSimulation& from, const Actions& actions, int depth,
               const std::vector<std::string>& goals = {}) {
  const TimePoint begin = MonotonicNow();
  Explored explored = Explore(from, actions, depth, goals);
  std::cout << name << ": depth " << depth << ", " << explored.states << " states, " << explored.transitions
            << " transitions, " << HumanDuration(MonotonicNow() - begin) << "\n";
  for (const auto& [phase, states] : explored.phases)
    std::cout << "  " << states << " " << phase << (phase == explored.phases.rbegin()->first ? "\n" : ",");
  for (const std::string& goal : goals) {
    std::cout << "  " << explored.seen[goal] << " x \"" << goal << "\"\n";
    EXPECT_GT(explored.seen[goal], 0u) << name << " never comes to \"" << goal << "\"";
  }
  EXPECT_EQ(explored.broken, "") << name;
  return explored;
}

TEST(StateMachineExploration, ThreeNodesFromNothing) {
  const Nodes nodes = {"node1", "node2", "node3"};
  for (const auto& [min_nodes, max_nodes, restarts] :
       {std::tuple(1, 2, 1), std::tuple(2, 2, 0), std::tuple(2, 3, 1)}) {
    const Explored e =
        Check(absl::StrCat("min ", min_nodes, " max ", max_nodes, " restarts ", restarts),
              ClusterSimulation(Settings(min_nodes, max_nodes, restarts)), EverydayActions(nodes), 6 - kLess);
    EXPECT_GE(e.states, 50u);
  }
}

TEST(StateMachineExploration, ThreeNodesFromARunningJob) {
  const Nodes nodes = {"node1", "node2", "node3"};
  for (const auto& [min_nodes, max_nodes, restarts] :
       {std::tuple(1, 2, 1), std::tuple(2, 2, 1), std::tuple(1, 3, 0)}) {
    const Explored e =
        Check(absl::StrCat("running, min ", min_nodes, " max ", max_nodes, " restarts ", restarts),
              RunningJob(Settings(min_nodes, max_nodes, restarts), nodes), EverydayActions(nodes), 5 - kLess);
    EXPECT_EQ(e.phases.size(), 3u) << "forming, running, ended";
  }
}

/// Members of an ordinary program that fall silent: time passes, and each of them may be heard again.
TEST(StateMachineExploration, SilentMembersOfAnOrdinaryProgram) {
  const Nodes nodes = {"node1", "node2", "node3"};
  for (const auto& [min_nodes, max_nodes] : {std::pair(2, 2), std::pair(2, 3), std::pair(1, 3)}) {
    JobSettings settings = Settings(min_nodes, max_nodes, 1);
    settings.ordinary_interval = std::chrono::seconds(1);
    settings.fence_timeout = std::chrono::seconds(4);
    Actions actions = {NextTick(), EvictNode("node2")};
    for (const std::string& node : nodes) {
      for (const Action& action :
           {Beats({node}), OfferAgain(node), CloseStream(node), Open(node), Finish(node)})
        actions.push_back(action);
    }
    actions.push_back(Fail("node1"));
    Check(absl::StrCat("ordinary, min ", min_nodes, " max ", max_nodes), RunningJob(settings, nodes, true),
          actions, 4 - kLess, {"is back after"});
  }
}

/// One of several services that starts: the job is new, or elsewhere.
TEST(StateMachineExploration, ServicesThatStart) {
  JobSettings settings = Settings(1, 2, 0);
  for (const int services : {2, 3}) {
    settings.endpoints = Services(services);
    Actions actions = {Arrive("node1"), Arrive("node2"), CloseStream("node1"), NextTick(),
                       Beats({"node1", "node2"})};
    const auto look = [&](std::vector<PeerService> peers) {
      if (services == 3) peers.push_back(Peer(State::kGone));
      actions.push_back(Look(settings, std::move(peers)));
    };
    look({Peer(State::kSelf), Peer(State::kWithoutJob)});
    look({Peer(State::kSelf), Peer(State::kSilent)});
    look({Peer(State::kSelf), Peer(State::kWithJob, 3)});
    look({Peer(State::kGone), Peer(State::kSelf)});
    look({Peer(State::kSilent), Peer(State::kSelf)});
    look({Peer(State::kWithoutJob), Peer(State::kSelf)});
    Check(absl::StrCat(services, " services begin"), ClusterSimulation(settings, seconds(1)), actions,
          7 - kLess,
          {"forms generation 1", "probing the other services", "does not answer and may have the job",
           "the job begins at service1", "the job is at service2: it has generation 3",
           "the job is at service1: it comes first in the list"});
  }
}

/// The service after one that is gone or cut off: agents come with the generations that they run.
TEST(StateMachineExploration, TakeoverWithTwoServices) {
  JobSettings settings = Settings(1, 2, 1);
  settings.endpoints = Services(2);
  const Nodes nodes = {"node1", "node2"};
  const auto held = HeldBy(nodes);
  Actions actions = {NextTick(), Beats(nodes)};
  for (const std::string& node : nodes) {
    for (const Action& action :
         {Return(node, held), OfferAgain(node), Leave(node), Fail(node), EvictNode(node)})
      actions.push_back(action);
  }
  for (const auto& peers :
       std::vector<std::vector<PeerService>>{{Peer(State::kSilent), Peer(State::kSelf)},
                                             {Peer(State::kWithJob, 1, true), Peer(State::kSelf)},
                                             {Peer(State::kWithJob, 2, true), Peer(State::kSelf)}})
    actions.push_back(Look(settings, peers));
  actions.push_back(Look(settings, {Peer(State::kGone), Peer(State::kSelf)}, {"node1"}));
  Check("takeover with 2 services", ClusterSimulation(settings, seconds(1)), actions, 6 - kLess,
        {"adopts generation 1", "holding: of generation 1", "node1 is dead", "node1 is evicted",
         "node1 is connected", "forms generation 2: 1 node", "forms generation 2: 2 nodes",
         "the job is at service1: it has generation 2"});
}

TEST(StateMachineExploration, TakeoverWithThreeServices) {
  JobSettings settings = Settings(1, 3, 1);
  settings.endpoints = Services(3);
  const Nodes nodes = {"node1", "node2", "node3"};
  const auto held = HeldBy(nodes);
  Actions actions = {NextTick(), Beats(nodes)};
  for (const std::string& node : nodes) {
    actions.push_back(Return(node, held));
    actions.push_back(OfferAgain(node));
    if (node != "node3") actions.push_back(Leave(node));
    if (node == "node1") actions.push_back(EvictNode(node));
  }
  for (const auto& peers : std::vector<std::vector<PeerService>>{
           {Peer(State::kGone), Peer(State::kSelf), Peer(State::kSilent)},
           {Peer(State::kGone), Peer(State::kSelf), Peer(State::kWithJob, 1)},
           {Peer(State::kSilent), Peer(State::kSelf), Peer(State::kWithJob, 2, true)}})
    actions.push_back(Look(settings, peers));
  actions.push_back(Look(settings, {Peer(State::kGone), Peer(State::kSelf), Peer(State::kGone)}, {"node1"}));
  Check("takeover with 3 services", ClusterSimulation(settings, seconds(1)), actions, 7 - 2 * kLess,
        {"adopts generation 1", "holding: of generation 1 node1, node2 are not here", "node1 is dead",
         "node1 is evicted", "forms generation 2", "the job is at service3: it has generation 2"});
}

/// Steps give back failures beyond the budget.
TEST(StateMachineExploration, Refunds) {
  JobSettings settings = Settings(1, 1, 1);
  settings.refund_steps = 2;
  const Nodes nodes = {"node1"};
  Actions actions = {Fail("node1"), OfferAgain("node1"), CloseStream("node1"),
                     Open("node1"), NextTick(),          Beats(nodes)};
  for (const int step : {2, 4, 9}) actions.push_back(Steps("node1", step));
  Check("refunds", RunningJob(settings, nodes), actions, 8 - kLess,
        {"2 steps without a failure: 0 of 1 restarts are used now", "of 1 failures 1 are given back",
         "restart 2 (", "the budget of 1 restart is used up"});
}

/// Workers that die at once, or cannot connect, end the job whatever the budget.
TEST(StateMachineExploration, CrashLoops) {
  JobSettings settings = Settings(1, 2, 10);
  settings.refund_steps = 100;
  const Nodes nodes = {"node1", "node2"};
  Actions actions = {FailEarly("node1"),   FailEarly("node2"), Fail("node2"),    OfferAll(nodes),
                     CloseStream("node2"), NextTick(),         Steps("node1", 1)};
  // Seven actions reach the third failure: the pause before it is one of them.
  Check("crash loop", RunningJob(settings, nodes), actions, 7,
        {"3 workers in a row exited during start-up", "restart 3 of 10"});
}

TEST(StateMachineExploration, GenerationsThatKeepBreaking) {
  const JobSettings settings = Settings(1, 2, 1);
  const Nodes nodes = {"node1", "node2"};
  ClusterSimulation world = RunningJob(settings, nodes);
  for (int i = 0; i < BreakBackoff::kMaxBreaks - 2; ++i) {
    world.Break("node1");
    for (const std::string& node : nodes) world.OfferFrom(node);
    world.Advance(BreakBackoff::kMaxPause);
  }
  ASSERT_EQ(world.machine().View(world.now()).phase, "running");
  Actions actions = {Break("node1"), Break("node2"),    Fail("node2"),    OfferAll(nodes),
                     NextTick(),     Pass(seconds(20)), Steps("node1", 1)};
  Check("generations that keep breaking", world, actions, 7 - kLess,
        {"10 generations in a row broke", "the last 9 generations broke", "the last 2 generations broke",
         "which broke the collectives"});
}

/// A job below its minimum number of nodes recovers in time, or ends.
TEST(StateMachineExploration, MinNodesTimeout) {
  JobSettings settings = Settings(2, 3, 1);
  settings.min_nodes_timeout = seconds(2);
  const Nodes nodes = {"node1", "node2", "node3"};
  Actions actions = {OfferAgain("node1"),  Arrive("node2"),         Arrive("node3"), Fail("node1"),
                     CloseStream("node2"), CloseStream("node3"),    Leave("node2"),  Leave("node3"),
                     NextTick(),           Pass(milliseconds(1100))};
  Check("min_nodes_timeout", RunningJob(settings, nodes), actions, 6 - kLess,
        {"fewer than 2 nodes for 2.0 s (min_nodes_timeout)", "forms generation 2: 2 nodes",
         "forms generation 2: 3 nodes"});
}

/// Agents come to a new service with generations of different ages from the service before it.
TEST(StateMachineExploration, HeldGenerations) {
  const JobSettings settings = Settings(1, 2, 1);
  const Nodes nodes = {"node1", "node2", "node3"};
  const auto older = HeldBy({"node1", "node2"});
  const auto newer = HeldBy({"node2", "node3"}, 2);
  Actions actions = {Return("node1", older),
                     Return("node2", older),
                     Return("node2", newer),
                     Return("node3", newer),
                     ReportBefore("node1", older),
                     NextTick(),
                     Beats(nodes)};
  for (const std::string& node : nodes) actions.push_back(OfferAgain(node));
  for (const char* node : {"node1", "node2"}) {
    for (const Action& action : {CloseStream(node), Fail(node), Finish(node)}) actions.push_back(action);
  }
  // One event deeper, a member that was assigned generation 2 returns on a new session with generation 1. It
  // counts as a member although it never received generation 2: the machine does not send it again.
  Check("held generations", ClusterSimulation(settings, seconds(1)), actions, 4,
        {"adopts generation 1", "adopts generation 2", "reports the higher generation 2",
         "the job has left generation 1", "it did not come back to the new service", "no longer runs it",
         "node1 finished (1 of 2)", "forms generation 3"});
}

/// A run of the job with an unknown outcome, and the one that runs here now.
TEST(StateMachineExploration, NodesOfAnotherRun) {
  const JobSettings settings = Settings(1, 2, 1);
  const auto other = HeldBy({"node3", "node4"}, 5, /*incarnation=*/99);
  Actions actions = {Return("node3", other),
                     ReportBefore("node4", other),
                     Arrive("node1"),
                     Arrive("node2"),
                     CloseStream("node1"),
                     Fail("node2"),
                     OfferAgain("node2"),
                     NextTick(),
                     Beats({"node1", "node2", "node3"})};
  const ClusterSimulation running = RunningJob(settings, {"node1", "node2"});
  Check("nodes of another run", running, actions, 5 - kLess,
        {"refused: another run of the job", "forms generation 2"});
  Explored disturbed = Explore(running, actions, 5 - kLess, {"adopts", "generation 5", "generation 6"});
  for (const auto& [what, times] : disturbed.seen) EXPECT_EQ(times, 0u) << what;
  // Before a run has begun, these nodes continue theirs.
  Check("nodes of another run come first", ClusterSimulation(settings, seconds(1)), actions, 5 - kLess,
        {"adopts generation 5"});
}

TEST(StateMachineExploration, ControlCalls) {
  const std::vector<std::string> nodes = {"node1", "node2"};
  Actions actions = {StopJob(true), StopJob(false), Arrive("node3"), NextTick(), Beats(nodes)};
  for (const std::string& node : nodes) {
    for (const Action& action :
         {DrainNode(node), Leave(node), OfferAgain(node), CloseStream(node), Finish(node)})
      actions.push_back(action);
  }
  Check("control calls", RunningJob(Settings(1, 2, 0), nodes), actions, 6 - kLess,
        {"node1 is asked to leave by anna@login1", "job ended: stopped, exit code 143",
         "all nodes leave after a step, and trainers save; leave", "every node has left"});
}

}  // namespace
}  // namespace mtrun::rendezvous
