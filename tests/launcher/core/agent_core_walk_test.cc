// A random walk of the agent's core: a small world performs the effects and answers with events.
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/core/agent_core.h"
#include "tests/launcher/core/agent_core_inputs.h"

namespace mtrun::launcher {
namespace {

using testing::IsEmpty;
using Phase = AgentCore::Phase;

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
            rendezvous::GenerationDissolved{{generation_, generation_ * 16}, {}, 1});
      case 4:
        if (random_() % 20 != 0) return Tick{};
        return rendezvous::ServiceEvent(
            rendezvous::JobEnded{{random_() % 2 == 0, static_cast<int>(random_() % 2), "end", {}}});
      case 5:
        if (random_() % 8 == 0) {
          const int rank = static_cast<int>(random_() % 8);
          return rendezvous::ServiceEvent(rendezvous::LogRequest{.id = ++asked_, .rank = rank});
        }
        if (random_() % 20 == 0) {
          return rendezvous::ServiceEvent(
              rendezvous::ControlCall{rendezvous::DrainCall{"node1", random_() % 4 == 0}, {}});
        }
        if (random_() % 20 != 0) return Tick{};
        if (random_() % 3 == 0) return PreemptFileAppeared{};
        return SignalReceived{random_() % 2 == 0 ? SIGTERM : SIGINT};
      case 6: {
        channel::Hello hello;
        hello.cooperative = random_() % 4 < cooperative_;
        return WorkerSaid{AnyRank(), hello};
      }
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
    if (const auto* service = std::get_if<rendezvous::ServiceEvent>(&event)) {
      if (const auto* assigned = std::get_if<rendezvous::Assigned>(service))
        seen_ = assigned->assignment().generation;
    }
    const Effects effects = core_.Step(event, now_);
    for (const Effect& effect : effects) {
      trace_.push_back("  " + Describe(effect));
      ASSERT_FALSE(silent || exited_) << "an effect after the exit\n" << Trace();
      std::visit([this](const auto& e) { Perform(e); }, effect);
    }
  }

  /// A signal and enough time end every run.
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
    EXPECT_EQ(effect.seen, seen_) << Trace();
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
    if (const auto* leaving = std::get_if<rendezvous::Leaving>(&effect.event)) {
      EXPECT_FALSE(left_) << "says that it leaves, and has left\n" << Trace();
      EXPECT_FALSE(leaving->stopping && stopping_) << "said twice that it is about to leave\n" << Trace();
      (leaving->stopping ? stopping_ : left_) = true;
    }
  }
  void Perform(const StartWorkers& effect) {
    const auto count = static_cast<size_t>(workers_);
    EXPECT_TRUE(started_ ? effect.local_ranks.size() <= count : effect.local_ranks.size() == count)
        << Trace();
    EXPECT_FALSE(left_ || stopping_) << "started after it left\n" << Trace();
    started_ = true;
    if (!effect.warm_up) offered_ = false;
    EXPECT_EQ(effect.warm_up, warm_up_) << Trace();
    EXPECT_EQ(effect.assignment.members[effect.member].node_id, "me");
    for (const int i : effect.local_ranks) {
      // Remaining processes are abandoned after a while.
      EXPECT_FALSE(alive_.contains(i) && alive_[i] == Life::kRunning) << "worker " << i << " is there\n"
                                                                      << Trace();
      alive_[i] = Life::kRunning;
      EXPECT_TRUE(effect.warm_up || starts_.insert({effect.assignment.generation, i}).second)
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
  void Perform(const ReadLog& effect) {
    EXPECT_EQ(effect.request.id, asked_) << Trace();
    EXPECT_LT(effect.local_rank, workers_) << Trace();
  }
  void Perform(const ShowNote&) {}
  void Perform(const WriteLog&) {}
  void Perform(const Exit& effect) {
    EXPECT_FALSE(started_) << "workers outlive it\n" << Trace();
    EXPECT_EQ(effect.outcome.has_value() && effect.outcome->success, false);
    exited_ = true;
  }

  std::string Trace() const { return absl::StrJoin(trace_, "\n"); }

  std::mt19937_64 random_;
  const int workers_;
  const uint64_t cooperative_;  // this many of 4 hellos announce it
  const bool warm_up_;
  AgentCore core_;
  TimePoint now_;
  uint64_t generation_ = 0;
  int64_t asked_ = 0;  // log requests
  int offered_workers_ = 0;
  rendezvous::Generation seen_;  // the last one assigned
  bool offered_ = false, started_ = false, exited_ = false;
  std::map<int, Life> alive_;
  std::map<rendezvous::Generation, rendezvous::WorkerFailure> failures_;
  std::set<rendezvous::Generation> finished_, broken_;
  std::set<std::pair<rendezvous::Generation, int>> starts_;
  bool left_ = false, stopping_ = false;
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

}  // namespace
}  // namespace mtrun::launcher
