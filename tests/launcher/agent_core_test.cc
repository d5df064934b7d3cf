#include "launcher/agent_core.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::IsEmpty;
using Phase = AgentCore::Phase;

AgentConfig Config(int workers) {
  AgentConfig config;
  config.offer.node_id = "me";
  config.offer.host = "node1";
  config.offer.address = "10.0.0.2";
  config.offer.workers = workers;
  config.endpoint = "node0:29400";
  config.max_restarts = 3;
  return config;
}

/// `nodes` nodes with `workers` workers each; this one is number `me`.
rendezvous::Assignment AssignmentOf(uint64_t number, int nodes, int me, int workers) {
  rendezvous::Assignment assignment;
  assignment.generation = {number, number * 16};
  for (int i = 0; i < nodes; ++i) {
    rendezvous::Member member;
    member.node_id = i == me ? "me" : absl::StrCat("other", i);
    member.host = absl::StrCat("node", i);
    member.address = absl::StrCat("10.0.0.", i + 1);
    member.node_rank = i;
    member.first_rank = i * workers;
    member.workers = workers;
    assignment.members.push_back(member);
  }
  assignment.world_size = nodes * workers;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 4000 + static_cast<int>(number);
  return assignment;
}

int SignalOf(const std::string& name) {
  for (int number = 1; number < 32; ++number) {
    if (SignalName(number) == name) return number;
  }
  ADD_FAILURE() << "no signal " << name;
  return 0;
}

// ---- golden scripts: testdata/agent_core_*.txt, MTRUN_REWRITE=1 rewrites them
// ---------------------------------
constexpr int kScriptWorkers = 2;

Event ParseCommand(const std::vector<std::string>& words) {
  const auto number = [&](size_t i) {
    int value = 0;
    EXPECT_TRUE(i < words.size() && absl::SimpleAtoi(words[i], &value)) << absl::StrJoin(words, " ");
    return value;
  };
  const auto rest = [&](size_t i) {
    return absl::StrJoin(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end(),
                         " ");
  };
  const std::string& verb = words[0];
  if (verb == "connected") return SessionConnected{};
  if (verb == "disconnected") return SessionDisconnected{rest(1)};
  if (verb == "session-failed") return SessionFailed{rest(1)};
  if (verb == "assigned") {  // GENERATION NODES ME [WORKERS]
    return rendezvous::ServiceEvent(
        rendezvous::Assigned{AssignmentOf(static_cast<uint64_t>(number(1)), number(2), number(3),
                                          words.size() > 4 ? number(4) : kScriptWorkers)});
  }
  if (verb == "dissolved") {  // GENERATION REASON
    const auto generation = static_cast<uint64_t>(number(1));
    return rendezvous::ServiceEvent(
        rendezvous::GenerationDissolved{{generation, generation * 16}, rest(2), 1});
  }
  if (verb == "ended") {  // EXIT_CODE REASON
    return rendezvous::ServiceEvent(rendezvous::JobEnded{{number(1) == 0, number(1), rest(2), std::nullopt}});
  }
  if (verb == "refused") return rendezvous::ServiceEvent(rendezvous::Refused{rest(1)});
  if (verb == "waiting") return rendezvous::ServiceEvent(rendezvous::Waiting{rest(1)});
  if (verb == "exited")
    return WorkerExited{.local_rank = number(1), .pid = 100 + number(1), .exit_code = number(2)};
  if (verb == "killed") {  // LOCAL_RANK SIGNAL
    WorkerExited event{.local_rank = number(1), .pid = 100 + number(1)};
    event.signal = SignalOf(words[2]);
    event.log_file = "/logs/stderr.log";
    return event;
  }
  if (verb == "gone") return WorkerGone{number(1)};
  if (verb == "hello")
    return WorkerSaid{number(1), channel::Hello{channel::kProtocolVersion, 100 + number(1), number(1), "",
                                                rest(2) == "cooperative"}};
  if (verb == "done") {  // LOCAL_RANK [GENERATION]
    const uint64_t generation = words.size() > 2 ? static_cast<uint64_t>(number(2)) : 0;
    return WorkerSaid{number(1), channel::Done{42, {generation, generation * 16}}};
  }
  if (verb == "warm") return WorkerSaid{number(1), channel::Ready{}};
  if (verb == "waits") {  // LOCAL_RANK GENERATION SECONDS
    const auto generation = static_cast<uint64_t>(number(2));
    return WorkerSaid{number(1),
                      channel::Waiting{{generation, generation * 16}, static_cast<double>(number(3))}};
  }
  if (verb == "progress") return WorkerSaid{number(1), channel::Progress{0, number(2), 0}};
  if (verb == "leaving") return WorkerSaid{number(1), channel::Leaving{rest(2)}};
  if (verb == "broken") {  // LOCAL_RANK GENERATION REASON
    const auto generation = static_cast<uint64_t>(number(2));
    return WorkerSaid{number(1), channel::Broken{{generation, generation * 16}, rest(3)}};
  }
  if (verb == "signal") return SignalReceived{SignalOf(words[1])};
  EXPECT_EQ(verb, "tick");
  return Tick{};
}

/// The script's first line may order "# config: warm_up hang_notice=2 hang_timeout=5".
AgentConfig ScriptConfig(const std::string& script) {
  AgentConfig config = Config(kScriptWorkers);
  const std::string first = script.substr(0, script.find('\n'));
  if (!absl::StartsWith(first, "# config: ")) return config;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(first.substr(10), ' '))) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    double seconds = 0;
    EXPECT_TRUE(parts.size() < 2 || absl::SimpleAtod(parts[1], &seconds)) << word;
    if (parts[0] == "warm_up") config.warm_up = true;
    if (parts[0] == "hang_notice") config.hang_notice = FromSeconds(seconds);
    if (parts[0] == "hang_timeout") config.hang_timeout = FromSeconds(seconds);
  }
  return config;
}

/// Runs the commands of one script, each with what follows from it. "at SECONDS" moves the clock and ticks.
std::string RunScript(const std::string& script) {
  AgentCore core(ScriptConfig(script), TimePoint());
  TimePoint now;
  std::string trace;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(script, '\n'))) {
    if (line.empty() || line[0] == ' ') continue;  // what an earlier run printed
    absl::StrAppend(&trace, line, "\n");
    if (line[0] == '#') continue;
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "at") {
      double seconds = 0;
      EXPECT_TRUE(absl::SimpleAtod(words[1], &seconds));
      now = TimePoint() + FromSeconds(seconds);
      words = {"tick"};
    }
    const Effects effects = core.Step(ParseCommand(words), now);
    for (const Effect& effect : effects) absl::StrAppend(&trace, "  ", Describe(effect), "\n");
    absl::StrAppend(&trace, "  [", core.Describe(), "]\n");
  }
  return trace;
}

TEST(AgentCoreGoldenTest, ScriptsGiveTheExpectedTraces) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set MT_SOURCE_DIR (ctest does)";
  int scripts = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(source, "/tests/launcher/testdata"))) {
    if (!entry.path().filename().string().starts_with("agent_core_")) continue;
    ++scripts;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string trace = RunScript(text.str());
    if (std::getenv("MTRUN_REWRITE") != nullptr) {
      std::ofstream(entry.path()) << trace;
    } else {
      EXPECT_EQ(trace, text.str()) << entry.path();
    }
  }
  EXPECT_GE(scripts, 5);
}

// ---- a random walk: a small world performs the effects and answers with events
// ----------------------------------
class World {
 public:
  World(uint64_t seed, int workers)
      : random_(seed),
        workers_(workers),
        cooperative_(random_() % 5),
        warm_up_(random_() % 2 == 0),
        core_(WorldConfig(workers, warm_up_), TimePoint()) {}

  void Walk(int steps) {
    for (int i = 0; i < steps && !exited_; ++i) {
      now_ += std::chrono::milliseconds(random_() % 400);
      Deliver(Choose());
    }
    if (!exited_) End();
    ASSERT_TRUE(exited_) << Trace();
    EXPECT_THAT(core_.Step(SignalReceived{SIGTERM}, now_), IsEmpty()) << "after the end";
    EXPECT_THAT(core_.Step(SessionConnected{}, now_), IsEmpty()) << "after the end";
  }

 private:
  enum class Life { kRunning, kExited };

  static AgentConfig WorldConfig(int workers, bool warm_up) {
    AgentConfig config = Config(workers);
    config.warm_up = warm_up;
    config.hang_notice = std::chrono::seconds(2);
    config.hang_timeout = std::chrono::seconds(warm_up ? 6 : 0);
    return config;
  }

  Event Choose() {
    switch (random_() % 12) {
      case 0:
        return SessionConnected{};
      case 1:
        return SessionDisconnected{"why"};
      case 2: {
        if (!offered_) return Tick{};
        return rendezvous::ServiceEvent(rendezvous::Assigned{
            AssignmentOf(++generation_, 2, random_() % 2 == 0 ? 1 : 0, offered_workers_)});
      }
      case 3:
        return rendezvous::ServiceEvent(
            rendezvous::GenerationDissolved{{generation_, generation_ * 16}, "why", 1});
      case 4:
        if (random_() % 20 != 0) return Tick{};
        return rendezvous::ServiceEvent(
            rendezvous::JobEnded{{random_() % 2 == 0, static_cast<int>(random_() % 2), "end", {}}});
      case 5:
        if (random_() % 20 != 0) return Tick{};
        return SignalReceived{random_() % 2 == 0 ? SIGTERM : SIGINT};
      case 6:
        return WorkerSaid{AnyRank(),
                          channel::Hello{.address = "", .cooperative = random_() % 4 < cooperative_}};
      case 7:
        if (random_() % 2 == 0) return WorkerSaid{AnyRank(), channel::Ready{}};
        if (random_() % 2 == 0)
          return WorkerSaid{AnyRank(), channel::Waiting{{generation_, generation_ * 16}, 3}};
        if (random_() % 2 != 0 || alive_.empty()) return Tick{};
        if (random_() % 3 == 0) return WorkerSaid{AnyRank(), channel::Leaving{"why"}};
        if (random_() % 2 == 0)
          return WorkerSaid{AnyRank(), channel::Broken{{generation_, generation_ * 16}, "why"}};
        return WorkerSaid{AnyRank(), channel::Done{1}};
      default:
        return ExitOfAWorker();
    }
  }

  int AnyRank() { return static_cast<int>(random_() % static_cast<unsigned>(workers_)); }

  Event ExitOfAWorker() {
    if (alive_.empty()) return Tick{};
    auto worker = std::next(alive_.begin(), static_cast<std::ptrdiff_t>(random_() % alive_.size()));
    const int local_rank = worker->first;
    if (worker->second == Life::kExited) {
      alive_.erase(worker);
      return WorkerGone{local_rank};
    }
    worker->second = Life::kExited;
    const bool fails = random_() % 3 == 0;
    return WorkerExited{.local_rank = local_rank, .pid = 5, .exit_code = fails ? 3 : 0};
  }

  void Deliver(const Event& event) {
    trace_.push_back(Describe(event));
    const bool silent = exited_;
    const Effects effects = core_.Step(event, now_);
    for (const Effect& effect : effects) {
      trace_.push_back("  " + Describe(effect));
      ASSERT_FALSE(silent || exited_) << "an effect after the exit\n" << Trace();
      std::visit([this](const auto& e) { Perform(e); }, effect);
    }
  }

  /// Whatever happened, a signal and the passing of time bring the end.
  void End() {
    now_ += std::chrono::seconds(1);
    Deliver(SignalReceived{SIGTERM});
    for (int i = 0; i < 5 && !exited_; ++i) {
      if (const auto deadline = core_.NextDeadline()) now_ = std::max(now_, *deadline);
      Deliver(Tick{});
    }
  }

  void Perform(const SendOffer& effect) {
    offered_ = effect.offer.workers > 0;
    offered_workers_ = effect.offer.workers;
    EXPECT_TRUE(offered_ || warm_up_) << "an empty offer\n" << Trace();
    EXPECT_EQ(effect.offer.holds.has_value(), core_.assignment().has_value()) << Trace();
    const bool may_want_another = core_.phase() == Phase::kRegrouping || (alive_.empty() && !started_);
    EXPECT_TRUE(!effect.fresh || may_want_another) << "a fresh offer while workers run\n" << Trace();
  }
  void Perform(const SendToService& effect) {
    if (const auto* failed = std::get_if<rendezvous::WorkerFailed>(&effect.event)) {
      const auto [known, is_new] = failures_.try_emplace(failed->generation, failed->failure);
      EXPECT_TRUE(is_new || known->second == failed->failure) << "two failures in one generation\n"
                                                              << Trace();
    }
    if (const auto* finished = std::get_if<rendezvous::WorkersFinished>(&effect.event)) {
      EXPECT_FALSE(failures_.contains(finished->generation)) << "failed and finished\n" << Trace();
      finished_.insert(finished->generation);
    }
    if (const auto* broken = std::get_if<rendezvous::CollectivesBroken>(&effect.event)) {
      EXPECT_TRUE(broken_.insert(broken->generation).second) << "broken twice\n" << Trace();
    }
    if (std::holds_alternative<rendezvous::Leaving>(effect.event)) {
      EXPECT_FALSE(std::exchange(left_, true)) << "two goodbyes\n" << Trace();
    }
  }
  void Perform(const StartWorkers& effect) {
    const auto count = static_cast<size_t>(workers_);
    EXPECT_TRUE(started_ ? effect.local_ranks.size() <= count : effect.local_ranks.size() == count)
        << Trace();
    EXPECT_FALSE(left_) << "started after the goodbye\n" << Trace();
    started_ = true;
    if (!effect.ahead) offered_ = false;
    EXPECT_EQ(effect.ahead, warm_up_) << Trace();
    EXPECT_EQ(effect.assignment.members[effect.member].node_id, "me");
    for (const int i : effect.local_ranks) {
      // Leftovers that do not go away are given up after a while.
      EXPECT_FALSE(alive_.contains(i) && alive_[i] == Life::kRunning) << "worker " << i << " is there\n"
                                                                      << Trace();
      alive_[i] = Life::kRunning;
      EXPECT_TRUE(effect.ahead || starts_.insert({effect.assignment.generation, i}).second)
          << "worker " << i << " is started twice\n"
          << Trace();
    }
  }
  void Perform(const SignalWorker& effect) {
    EXPECT_TRUE(alive_.contains(effect.local_rank)) << "signal without a worker\n" << Trace();
  }
  void Perform(const SignalWorkers&) { EXPECT_TRUE(started_) << "signal without workers\n" << Trace(); }
  void Perform(const SendToWorker& effect) {
    EXPECT_TRUE(started_ && effect.local_rank < workers_) << Trace();
  }
  void Perform(const CleanUp&) {
    EXPECT_TRUE(started_) << Trace();
    started_ = false;
    alive_.clear();
  }
  void Perform(const InspectWorker& effect) {
    EXPECT_TRUE(alive_.contains(effect.local_rank)) << "looks at no worker\n" << Trace();
  }
  void Perform(const ShowNote&) {}
  void Perform(const WriteLog&) {}
  void Perform(const Exit& effect) {
    EXPECT_FALSE(started_) << "left workers behind\n" << Trace();
    EXPECT_EQ(effect.outcome.has_value() && effect.outcome->success, false);
    exited_ = true;
  }

  std::string Trace() const { return absl::StrJoin(trace_, "\n"); }

  std::mt19937_64 random_;
  const int workers_;
  const uint64_t cooperative_;  // so many of 4 hellos say so
  const bool warm_up_;
  AgentCore core_;
  TimePoint now_;
  uint64_t generation_ = 0;
  int offered_workers_ = 0;
  bool offered_ = false, started_ = false, exited_ = false;
  std::map<int, Life> alive_;
  std::map<rendezvous::Generation, rendezvous::WorkerFailure> failures_;
  std::set<rendezvous::Generation> finished_, broken_;
  std::set<std::pair<rendezvous::Generation, int>> starts_;
  bool left_ = false;
  std::vector<std::string> trace_;
};

TEST(AgentCoreWalkTest, PropertiesHoldOnRandomWalks) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  const int walks = given != nullptr ? 1 : 3000;
  for (int i = 0; i < walks; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(absl::StrCat("MTRUN_SEED=", seed));
    World(seed, 1 + static_cast<int>(seed % 4)).Walk(120);
    if (testing::Test::HasFailure()) return;
  }
}

// ---- single sentences
// -------------------------------------------------------------------------------------------
TEST(AgentCoreTest, JoiningGivesUpAfterTheJoinTimeout) {
  AgentConfig config = Config(1);
  config.join_timeout = std::chrono::seconds(5);
  AgentCore core(config, TimePoint());
  ASSERT_EQ(core.NextDeadline(), TimePoint(std::chrono::seconds(5)));
  const Effects effects = core.Step(Tick{}, *core.NextDeadline());
  EXPECT_EQ(std::get<Exit>(effects.back()).code, 1);
  EXPECT_THAT(Describe(effects), testing::HasSubstr("node0:29400"));
}

TEST(AgentCoreTest, AnEchoOfTheSignalDoesNotKill) {
  AgentCore core(Config(1), TimePoint());
  core.Step(SessionConnected{}, TimePoint());
  core.Step(rendezvous::ServiceEvent(rendezvous::Assigned{AssignmentOf(1, 1, 0, 1)}), TimePoint());
  core.Step(SignalReceived{SIGTERM}, TimePoint());
  EXPECT_THAT(core.Step(SignalReceived{SIGTERM}, TimePoint(std::chrono::milliseconds(50))), IsEmpty());
  const Effects effects = core.Step(SignalReceived{SIGTERM}, TimePoint(std::chrono::milliseconds(150)));
  EXPECT_THAT(effects, testing::Contains(Effect(SignalWorkers{SIGKILL})));
}

}  // namespace
}  // namespace mtrun::launcher
