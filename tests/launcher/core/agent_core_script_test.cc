// Golden scripts of the agent's core (tests/support/golden_script.h): testdata/agent_core_*.txt.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/signal_name.h"
#include "gtest/gtest.h"
#include "launcher/core/agent_core.h"
#include "tests/launcher/core/agent_core_inputs.h"
#include "tests/support/golden_script.h"

namespace mtrun::launcher {
namespace {

constexpr int kScriptWorkers = 2;

int SignalOf(const std::string& name) {
  for (int number = 1; number < 32; ++number) {
    if (SignalName(number) == name) return number;
  }
  ADD_FAILURE() << "no signal " << name;
  return 0;
}

/// One command of a script: a verb and its arguments.
class Command {
 public:
  explicit Command(std::vector<std::string> words) : words_(std::move(words)) {}

  Event Parse() const {
    const std::string& verb = words_[0];
    if (verb == "connected") return SessionConnected{};
    if (verb == "disconnected") return SessionDisconnected{Rest(1)};
    if (verb == "leased")
      return LeaseRenewed{TimePoint() + std::chrono::seconds(Number(1))};  // UNTIL SECONDS
    if (verb == "session-failed") return SessionFailed{Rest(1)};
    if (verb == "signal") return SignalReceived{SignalOf(words_[1])};
    if (verb == "preempt-file") return PreemptFileAppeared{};
    if (verb == "tick") return Tick{};
    if (const auto event = OfService(verb)) return *event;
    if (const auto message = OfWorker(verb)) return WorkerSaid{Number(1), *message};
    return OfProcess(verb);
  }

 private:
  int Number(size_t i) const {
    int value = 0;
    EXPECT_TRUE(i < words_.size() && absl::SimpleAtoi(words_[i], &value)) << absl::StrJoin(words_, " ");
    return value;
  }
  std::string Rest(size_t i) const {
    return absl::StrJoin(words_.begin() + static_cast<std::ptrdiff_t>(std::min(i, words_.size())),
                         words_.end(), " ");
  }
  rendezvous::Generation GenerationAt(size_t i) const {
    const auto number = static_cast<uint64_t>(Number(i));
    return {number, number * 16};
  }

  std::optional<rendezvous::ServiceEvent> OfService(const std::string& verb) const {
    if (verb == "assigned") {  // GENERATION NODES ME [WORKERS]
      return rendezvous::Assigned{AssignmentOf(static_cast<uint64_t>(Number(1)), Number(2), Number(3),
                                               words_.size() > 4 ? Number(4) : kScriptWorkers)};
    }
    if (verb == "without") {  // GENERATION NODES: without this node
      const int nodes = Number(2);
      return rendezvous::Membership{
          rendezvous::Assigned(AssignmentOf(static_cast<uint64_t>(Number(1)), nodes, nodes, kScriptWorkers))};
    }
    if (verb == "dissolved")  // GENERATION TEXT: the text of any cause
      return rendezvous::GenerationDissolved{GenerationAt(1), {"", "", rendezvous::NotServed{Rest(2)}}, 1};
    if (verb == "ended")  // EXIT_CODE REASON
      return rendezvous::JobEnded{{Number(1) == 0, Number(1), Rest(2), std::nullopt}};
    if (verb == "asked") {  // drain NODE [leave], stop NODE leave [checkpoint]
      const rendezvous::Requester by = {"anna", "login1", 4711, "10.0.0.7:4242"};
      if (words_[1] == "stop") return rendezvous::ControlCall{rendezvous::StopCall{words_.size() > 4}, by};
      return rendezvous::ControlCall{rendezvous::DrainCall{words_[2], words_.size() > 3}, by};
    }
    if (verb == "refused") return rendezvous::Refused{{"", "", rendezvous::NotServed{Rest(1)}}};
    if (verb == "waiting") return rendezvous::Waiting{Rest(1)};
    return std::nullopt;
  }

  std::optional<channel::WorkerMessage> OfWorker(const std::string& verb) const {
    if (verb == "hello") {
      channel::Hello hello;
      hello.pid = 100 + Number(1);
      hello.local_rank = Number(1);
      hello.cooperative = Rest(2) == "cooperative";
      return hello;
    }
    if (verb == "done")  // LOCAL_RANK [GENERATION]
      return channel::Done{42, words_.size() > 2 ? GenerationAt(2) : rendezvous::Generation{}};
    if (verb == "warm") return channel::Ready{};
    if (verb == "ready") return channel::Ready{GenerationAt(2)};  // LOCAL_RANK GENERATION
    if (verb == "waits")                                          // LOCAL_RANK GENERATION SECONDS
      return channel::Waiting{GenerationAt(2), static_cast<double>(Number(3))};
    if (verb == "unreached")  // LOCAL_RANK GENERATION RANK
      return channel::Waiting{GenerationAt(2), 5, Number(3)};
    if (verb == "progress") return channel::Progress{0, Number(2), 0};
    if (verb == "leaving") return channel::Leaving{Rest(2)};
    if (verb == "broken") return channel::Broken{GenerationAt(2), Rest(3)};  // LOCAL_RANK GENERATION REASON
    return std::nullopt;
  }

  Event OfProcess(const std::string& verb) const {
    if (verb == "gone") return WorkerGone{Number(1)};
    WorkerExited event{.local_rank = Number(1), .pid = 100 + Number(1)};
    if (verb == "killed") {  // LOCAL_RANK SIGNAL [by_lease]
      event.by_lease = words_.size() > 3;
      event.signal = SignalOf(words_[2]);
      event.log_file = "/logs/stderr.log";
      return event;
    }
    EXPECT_EQ(verb, "exited");  // LOCAL_RANK EXIT_CODE
    event.exit_code = Number(2);
    return event;
  }

  const std::vector<std::string> words_;
};

/// Reads a first line like "# config: warm_up fence_timeout=30 hang_notice=2 hang_timeout=5".
AgentConfig ScriptConfig(const std::string& script) {
  AgentConfig config = Config(kScriptWorkers);
  const std::string first = script.substr(0, script.find('\n'));
  if (!absl::StartsWith(first, "# config: ")) return config;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(first.substr(10), ' '))) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    double seconds = 0;
    EXPECT_TRUE(parts.size() < 2 || absl::SimpleAtod(parts[1], &seconds)) << word;
    if (parts[0] == "warm_up") config.warm_up = true;
    if (parts[0] == "brief") config.brief = true;
    if (parts[0] == "fence_timeout") config.fence_timeout = FromSeconds(seconds);
    if (parts[0] == "hang_notice") config.hang_notice = FromSeconds(seconds);
    if (parts[0] == "hang_timeout") config.hang_timeout = FromSeconds(seconds);
  }
  return config;
}

/// Runs the commands of one script and appends each one's effects. "at SECONDS" moves the clock and ticks;
/// "asleep_until SECONDS" only moves it.
std::string RunScript(const std::string& script) {
  AgentCore core(ScriptConfig(script), TimePoint());
  TimePoint now;
  std::string trace;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(script, '\n'))) {
    if (line.empty() || line[0] == ' ') continue;  // output of an earlier run
    absl::StrAppend(&trace, line, "\n");
    if (line[0] == '#') continue;
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "at" || words[0] == "asleep_until") {
      double seconds = 0;
      EXPECT_TRUE(absl::SimpleAtod(words[1], &seconds));
      now = TimePoint() + FromSeconds(seconds);
      if (words[0] == "asleep_until") continue;  // its timers ring after the next event
      words = {"tick"};
    }
    const Effects effects = core.Step(Command(words).Parse(), now);
    for (const Effect& effect : effects) absl::StrAppend(&trace, "  ", Describe(effect), "\n");
    absl::StrAppend(&trace, "  [", core.Describe(), "]\n");
  }
  return trace;
}

TEST(AgentCoreGoldenTest, ScriptsGiveTheExpectedTraces) {
  support::ExpectScripts("tests/launcher/core/testdata", "agent_core_", 5, RunScript);
}

}  // namespace
}  // namespace mtrun::launcher
