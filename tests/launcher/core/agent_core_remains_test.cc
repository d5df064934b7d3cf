// The remains of a generation: an agent that heard much in it is, in the next one, exactly like one that
// was in both and heard nothing.
#include <csignal>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "launcher/core/agent_core.h"
#include "tests/launcher/core/agent_core_inputs.h"

namespace mtrun::launcher {
namespace {

using std::chrono::seconds;
using Phase = AgentCore::Phase;

TimePoint RemainsAt(int second) { return TimePoint(seconds(second)); }

Event AssignedTo(uint64_t number) {
  return rendezvous::ServiceEvent(rendezvous::Assigned{AssignmentOf(number, 2, 0, 2)});
}
Event EndOf(uint64_t number) {
  return rendezvous::ServiceEvent(rendezvous::GenerationDissolved{{number, number * 16}, {}, 1});
}

/// Returns what can happen in generation 1 without ending it.
std::vector<Event> Happenings() {
  return {
      LeaseRenewed{RemainsAt(12)},
      LeaseRenewed{RemainsAt(40)},
      WorkerSaid{0, channel::Progress{0, 7, 0}},
      WorkerSaid{0, channel::Progress{0, 250, 0}},
      WorkerSaid{1, channel::Progress{0, 7, 0}},
      WorkerSaid{0, channel::Ready{{1, 16}}},
      WorkerSaid{1, channel::Ready{{1, 16}}},
      WorkerSaid{1, channel::Waiting{{1, 16}, 90}},
      WorkerSaid{0, channel::Waiting{{1, 16}, 5, 3}},
      WorkerSaid{0, channel::Broken{{1, 16}, "reset"}},
      SessionDisconnected{"the cable is out"},
      SessionConnected{},
  };
}

class AgentRun {
 public:
  explicit AgentRun(bool cooperative) : core_(Trained(), TimePoint()) {
    Step(SessionConnected{}, 0);
    Step(AssignedTo(1), 0);
    for (const int rank : {0, 1}) Step(WorkerSaid{rank, channel::Hello{.cooperative = cooperative}}, 0);
  }

  void Step(const Event& event, int second) { core_.Step(event, RemainsAt(second)); }
  /// Ends both processes.
  void Exit(int second, int signal) {
    for (const int rank : {0, 1}) Step(WorkerExited{.local_rank = rank, .signal = signal}, second);
    for (const int rank : {0, 1}) Step(WorkerGone{rank}, second);
  }
  const AgentCore& core() const { return core_; }

 private:
  static AgentConfig Trained() {
    AgentConfig config = Config(2);
    config.fence_timeout = seconds(30);
    config.hang_timeout = seconds(60);
    return config;
  }
  AgentCore core_;
};

/// Returns the agent in generation 2, after one that ended in the way `end` with so much in it.
AgentCore AgentAfter(bool cooperative, int end, const std::vector<Event>& happened) {
  AgentRun agent(cooperative);
  for (const Event& event : happened) agent.Step(event, 5);
  agent.Step(SessionConnected{}, 6);
  if (end == 0) agent.Step(EndOf(1), 10);
  if (end == 1) agent.Step(AssignedTo(2), 10);  // a newer one, before the end of this one was heard
  if (end == 2) {
    agent.Step(WorkerExited{.local_rank = 0, .exit_code = 3}, 10);
    agent.Step(WorkerGone{0}, 10);
    if (!cooperative) {
      agent.Step(WorkerExited{.local_rank = 1, .signal = SIGTERM}, 10);
      agent.Step(WorkerGone{1}, 10);
    }
    agent.Step(EndOf(1), 10);
  } else if (!cooperative) {
    agent.Exit(11, SIGTERM);
  }
  agent.Step(AssignedTo(end == 1 ? 3 : 2), 12);
  EXPECT_EQ(agent.core().phase(), Phase::kRunning) << agent.core().Describe();
  return agent.core();
}

TEST(AgentCoreRemainsTest, EndedGenerationOfOrdinaryWorkersLeavesNothing) {
  const std::vector<Event> happenings = Happenings();
  for (const int end : {0, 1, 2}) {
    const AgentCore quiet = AgentAfter(/*cooperative=*/false, end, {});
    for (const Event& event : happenings)
      EXPECT_TRUE(AgentAfter(false, end, {event}) == quiet) << "end " << end << ": " << Describe(event);
    for (uint32_t seed = 1; seed <= 200; ++seed) {
      std::mt19937 random(seed);
      std::vector<Event> happened;
      for (int n = 0; n < 8; ++n) happened.push_back(happenings[random() % happenings.size()]);
      EXPECT_TRUE(AgentAfter(false, end, happened) == quiet) << "end " << end << ", seed " << seed;
    }
  }
}

/// Cooperative workers live on, and with them what they said of themselves: they are ready, and at some step.
TEST(AgentCoreRemainsTest, EndedGenerationOfCooperativeWorkersLeavesOnlyWhatTheySaidOfThemselves) {
  const channel::Ready of_another{{9, 144}};
  const std::vector<Event> of_themselves = {WorkerSaid{0, of_another}, WorkerSaid{1, of_another}};
  for (const int end : {0, 1, 2}) {
    const AgentCore quiet = AgentAfter(/*cooperative=*/true, end, of_themselves);
    for (const Event& event : Happenings()) {
      const auto* said = std::get_if<WorkerSaid>(&event);
      if (said != nullptr && std::holds_alternative<channel::Progress>(said->message)) continue;
      std::vector<Event> happened = {event};
      happened.insert(happened.end(), of_themselves.begin(), of_themselves.end());
      EXPECT_TRUE(AgentAfter(true, end, happened) == quiet) << "end " << end << ": " << Describe(event);
    }
  }
}

}  // namespace
}  // namespace mtrun::launcher
