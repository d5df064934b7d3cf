// No worker ever applies the leftovers of an aborted device. Random schedules of two to four workers: they
// die between steps, in the middle of their sums, or with a record that does not reach the others; they are
// stopped anywhere in a step, abort, are late, or their device breaks. Each worker applies exact steps or
// nothing. Without the commit rule, or with a part of it, the schedules find workers that apply garbage.
#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/step/train_step.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

using std::chrono::microseconds;
using testing::FakeNetwork;

constexpr int kRuleSteps = 4;

/// A source of one sample a micro-batch, eight a step, with other numbers in each step.
class EightNumbers : public MicroBatchSource {
 public:
  int64_t micro_batches() const override { return 8; }
  int64_t SamplesInStep(int64_t) const override { return 8; }
  int64_t SamplesInMicroBatch(int64_t, int64_t) const override { return 1; }
  Batch Make(int64_t step, int64_t micro_batch) override {
    if (before) before();
    datasets::SampleSum samples;
    samples.Add(step * 8 + micro_batch);
    return {at::full({1, 1}, static_cast<float>(step * 8 + micro_batch + 1)), at::zeros({1}, at::kLong),
            samples};
  }
  std::function<void()> before;
};

struct Line : torch::nn::Module {
  Line() : weight(register_parameter("weight", at::ones({1, 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
  at::Tensor weight;
};

/// The exchange of the records of a step.
using Exchange = decltype(TrainStep::Options::exchange);

/// One worker's network and training state.
struct Worker {
  explicit Worker(const collectives::ProcessGroup& group, const TrainStep::Options& options = {})
      : task(
            AsModel(net),
            [](const at::Tensor& logits, const at::Tensor&) { return logits.select(1, 0).mean(); }, 2),
        state(*net, {}),
        sums(state.trained(), group),
        step(task, source, sums, state, options) {}

  const std::shared_ptr<Line> net = std::make_shared<Line>();
  ClassifierTask task;
  EightNumbers source;
  TrainState state;
  DataParallel sums;
  TrainStep step;
};

/// Returns the weights after each number of steps, of one worker without a group.
std::vector<at::Tensor> Exact() {
  Worker alone(nullptr);
  std::vector<at::Tensor> weights = {alone.net->weight.detach().clone()};
  for (int step = 0; step < kRuleSteps; ++step) {
    EXPECT_TRUE(alone.step.Run(step, 0, 1, 0.1).ok());
    weights.push_back(alone.net->weight.detach().clone());
  }
  return weights;
}

/// A fault of one worker, at some moment of one of its steps.
struct RuleFault {
  enum class Kind {
    kLeaves,        // leaves in order before the step
    kAborts,        // aborts its group
    kDeviceAborts,  // its device aborts before its group does
    kBreaks,        // its device breaks
    kVanishes,      // its process dies: it sends no more sums, and its links are cut
    kKeepsRecord,   // it vanishes after it has read its sums
  };
  Kind kind = Kind::kLeaves;
  int rank = 0, step = 0;
  microseconds after = {}, group_later = {};  // after the start of the step; after the abort of the device
};

/// A place where a worker is stopped for a while, in each of its steps.
struct Stop {
  enum class Place { kBeforeStep, kInPass, kBeforeRecord, kBeforeCommit };
  Place place = Place::kBeforeStep;
  microseconds lasts = {};
};

struct Schedule {
  int world = 2;
  std::vector<RuleFault> faults;     // one or two
  std::vector<microseconds> delays;  // of each rank's device sums
  std::vector<Stop> stops;           // by rank
};

Schedule MakeSchedule(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  Schedule schedule;
  schedule.world = 2 + below(3);
  for (int faults = below(3) == 0 ? 2 : 1; faults > 0; --faults) {
    schedule.faults.push_back({.kind = static_cast<RuleFault::Kind>(below(6)),
                               .rank = below(static_cast<uint64_t>(schedule.world)),
                               .step = below(kRuleSteps),
                               .after = microseconds(below(1500)),
                               .group_later = microseconds(below(3) == 0 ? 0 : below(6000))});
  }
  for (int rank = 0; rank < schedule.world; ++rank) {
    schedule.delays.emplace_back(below(2) * below(800));
    schedule.stops.push_back({.place = static_cast<Stop::Place>(below(4)),
                              .lasts = microseconds(below(3) == 0 ? below(2000) : 0)});
  }
  return schedule;
}

/// Starts a thread that injects the fault at its moment, whatever the worker does then.
std::thread Strike(const RuleFault& fault, FakeNetwork& network, const collectives::ProcessGroup& group) {
  return std::thread([&fault, &network, group] {
    std::this_thread::sleep_for(fault.after);
    if (fault.kind == RuleFault::Kind::kBreaks) return network.Break(fault.rank);
    if (fault.kind == RuleFault::Kind::kVanishes) network.Vanish(fault.rank);
    // An aborting process learns of the abort before the others learn of it from its group.
    if (fault.kind == RuleFault::Kind::kDeviceAborts) collectives::DeviceOf(group)->Abort();
    std::this_thread::sleep_for(fault.group_later);
    collectives::AbortGroup(group, "the agent says so, or its links are cut");
  });
}

/// Runs one worker under a schedule.
class Life {
 public:
  Life(const Schedule& schedule, int rank, FakeNetwork& network, collectives::ProcessGroup group,
       Exchange exchange)
      : schedule_(schedule),
        rank_(rank),
        network_(network),
        group_(std::move(group)),
        exchange_(std::move(exchange)),
        worker_(group_, {.may_commit =
                             [this] {
                               MaybeStop(Stop::Place::kBeforeCommit);
                               return absl::OkStatus();
                             },
                         .exchange = [this](const auto&, const std::string& own) { return Tell(own); }}) {
    worker_.source.before = [this] {
      if (std::exchange(in_pass_of_, applied_) != applied_) MaybeStop(Stop::Place::kInPass);
    };
  }

  /// Runs the worker; returns the number of applied steps. `exact`: the weights after each number of steps.
  int Live(const std::vector<at::Tensor>& exact) {
    std::vector<std::thread> strikes;
    while (applied_ < kRuleSteps && is_exact_) {
      MaybeStop(Stop::Place::kBeforeStep);
      if (FaultOf(RuleFault::Kind::kLeaves) != nullptr) break;
      for (const RuleFault& fault : schedule_.faults) {
        if (IsNow(fault) && fault.kind != RuleFault::Kind::kKeepsRecord)
          strikes.push_back(Strike(fault, network_, group_));
      }
      const auto result = worker_.step.Run(applied_, rank_, schedule_.world, 0.1);
      applied_ += result.ok() ? 1 : 0;
      is_exact_ = at::allclose(weights(), exact[static_cast<size_t>(applied_)]);
      if (!result.ok()) break;
    }
    for (std::thread& strike : strikes) strike.join();
    return applied_;
  }
  bool is_exact() const { return is_exact_; }
  at::Tensor weights() const { return worker_.net->weight.detach(); }

 private:
  bool IsNow(const RuleFault& fault) const { return fault.rank == rank_ && fault.step == applied_; }
  const RuleFault* FaultOf(RuleFault::Kind kind) const {
    for (const RuleFault& fault : schedule_.faults) {
      if (fault.kind == kind && IsNow(fault)) return &fault;
    }
    return nullptr;
  }
  void MaybeStop(Stop::Place place) const {
    const Stop& stop = schedule_.stops[static_cast<size_t>(rank_)];
    if (stop.place == place) std::this_thread::sleep_for(stop.lasts);
  }

  /// Exchanges records after the worker has read its sums.
  absl::StatusOr<std::vector<std::string>> Tell(const std::string& own) {
    MaybeStop(Stop::Place::kBeforeRecord);
    if (FaultOf(RuleFault::Kind::kKeepsRecord) != nullptr) {
      network_.Vanish(rank_);
      collectives::AbortGroup(group_, "its links are cut");
    }
    if (network_.vanished(rank_)) return absl::UnavailableError("it is dead");
    return exchange_(group_, own);
  }

  const Schedule& schedule_;
  const int rank_;
  FakeNetwork& network_;
  const collectives::ProcessGroup group_;
  const Exchange exchange_;
  Worker worker_;
  int applied_ = 0, in_pass_of_ = -1;
  bool is_exact_ = true;
};

/// The results of schedules.
struct Reached {
  int whole = 0, cut = 0;  // schedules in which all applied all steps, and those that ended early
  int garbage = 0;         // garbage sums received by workers that had not aborted
  int apart = 0;           // schedules in which some applied two steps more than others
  std::string wrong;       // workers that applied anything other than the steps, with their seeds
};

/// Runs a schedule. Numbers of applied steps may differ by one, if some workers missed a commit.
void Play(uint64_t seed, const std::vector<at::Tensor>& exact, const Exchange& exchange, Reached& reached) {
  const Schedule schedule = MakeSchedule(seed);
  const auto network = FakeNetwork::Make(schedule.world);
  for (int rank = 0; rank < schedule.world; ++rank)
    network->Delay(rank, schedule.delays[static_cast<size_t>(rank)]);
  Mutex mu;
  int least = kRuleSteps, most = 0;
  const auto device = [&](const collectives::GroupMember& member,
                          const std::shared_ptr<collectives::Bootstrap>&) {
    return network->DeviceOf(member.rank);
  };
  testing::RunRanksWithDevices(schedule.world, device, [&](int rank, const auto& group) {
    std::optional<Life> life;
    if (group.ok()) life.emplace(schedule, rank, *network, *group, exchange);
    const int applied = life ? life->Live(exact) : 0;
    const MutexLock lock(mu);
    least = std::min(least, applied);
    most = std::max(most, applied);
    if (!life || life->is_exact()) return;
    absl::StrAppend(&reached.wrong, "MTRUN_SEED=", seed, ": rank ", rank, " after ", applied,
                    " steps: ", life->weights()[0][0].item<double>(), "\n");
  });
  ++(least == kRuleSteps ? reached.whole : reached.cut);
  reached.apart += most - least > 1 ? 1 : 0;
  reached.garbage += network->garbage();
}

TEST(CommitRule, NoWorkerAppliesGarbage) {
  const std::vector<at::Tensor> exact = Exact();
  Reached reached;
  const char* const given = std::getenv("MTRUN_SEED");
  uint64_t first = std::getenv("MTRUN_NEW_SEEDS") != nullptr ? RandomBits() : 1;
  if (given != nullptr) first = std::strtoull(given, nullptr, 0);
  const uint64_t schedules = given != nullptr ? 1 : 1000;
  for (uint64_t seed = first; seed < first + schedules; ++seed) {
    Play(seed, exact, collectives::CommitNotes, reached);
    ASSERT_EQ(reached.wrong, "");
    ASSERT_EQ(reached.apart, 0) << "MTRUN_SEED=" << seed;
  }
  if (given != nullptr) return;
  // Without these cases the test would prove nothing.
  EXPECT_GE(reached.whole, 20);
  EXPECT_GE(reached.cut, 200);
  EXPECT_GE(reached.garbage, 20);
}

/// Returns the first seed of 1 to 100 with which a worker applies anything but the steps; 0: none.
uint64_t FirstWrong(const Exchange& exchange) {
  const std::vector<at::Tensor> exact = Exact();
  Reached reached;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Play(seed, exact, exchange, reached);
    if (!reached.wrong.empty()) return seed;
  }
  return 0;
}

/// The state before the commit rule: a worker checks its own group and device only.
TEST(CommitRule, GarbageIsAppliedWithoutTheRule) {
  const Exchange alone = [](const collectives::ProcessGroup& group, const std::string& own) {
    const absl::Status status = collectives::GroupStatus(group);
    using Records = std::vector<std::string>;
    return status.ok() ? absl::StatusOr<Records>(Records{own}) : status;
  };
  EXPECT_NE(FirstWrong(alone), 0u);
}

/// The records of all members are exchanged, but a worker does not check whether its own device was aborted.
TEST(CommitRule, GarbageIsAppliedWithoutACheckOfTheOwnDevice) {
  EXPECT_NE(FirstWrong(collectives::AllGather), 0u);
}

}  // namespace
}  // namespace mtrun::trainers
