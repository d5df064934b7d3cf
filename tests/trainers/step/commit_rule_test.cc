// No worker ever applies what an aborted device leaves: random schedules of workers that die between steps,
// in the middle of their sums or with a record that nobody gets, are stopped anywhere in a step, abort, are
// late or whose device breaks, with two to four of them. Each applies exact steps or nothing. Without the
// commit rule, or a part of it, some apply garbage: the schedules find it.
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

/// A sample a micro-batch, eight a step, other numbers in each.
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

/// How the records of a step come together.
using Exchange = decltype(TrainStep::Options::exchange);

/// One worker's network and what trains it.
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

/// The weights after so many steps, of one worker without any group.
std::vector<at::Tensor> Exact() {
  Worker alone(nullptr);
  std::vector<at::Tensor> weights = {alone.net->weight.detach().clone()};
  for (int step = 0; step < kRuleSteps; ++step) {
    EXPECT_TRUE(alone.step.Run(step, 0, 1, 0.1).ok());
    weights.push_back(alone.net->weight.detach().clone());
  }
  return weights;
}

/// What happens to one worker, at some moment of one of its steps.
struct RuleFault {
  enum class Kind {
    kLeaves,        // before the step, in order
    kAborts,        // its group
    kDeviceAborts,  // before its group does
    kBreaks,        // its device
    kVanishes,      // its process: no more sums of it, and its links are cut
    kKeepsRecord,   // it vanishes when it has read its sums
  };
  Kind kind = Kind::kLeaves;
  int rank = 0, step = 0;
  microseconds after = {}, group_later = {};  // since the step began; since the device was aborted
};

/// Where a worker is stopped for a while, in each of its steps.
struct Stop {
  enum class Place { kBeforeStep, kInPass, kBeforeRecord, kBeforeCommit };
  Place place = Place::kBeforeStep;
  microseconds lasts = {};
};

struct Schedule {
  int world = 2;
  std::vector<RuleFault> faults;     // one or two
  std::vector<microseconds> delays;  // by rank, of its device's sums
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

/// Strikes at its moment, whatever the worker does then.
std::thread Strike(const RuleFault& fault, FakeNetwork& network, const collectives::ProcessGroup& group) {
  return std::thread([&fault, &network, group] {
    std::this_thread::sleep_for(fault.after);
    if (fault.kind == RuleFault::Kind::kBreaks) return network.Break(fault.rank);
    if (fault.kind == RuleFault::Kind::kVanishes) network.Vanish(fault.rank);
    // The process that is to abort hears so before the others can hear it of its group.
    if (fault.kind == RuleFault::Kind::kDeviceAborts) collectives::DeviceOf(group)->Abort();
    std::this_thread::sleep_for(fault.group_later);
    collectives::AbortGroup(group, "the agent says so, or its links are cut");
  });
}

/// A worker's life under a schedule.
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

  /// How many steps it has applied. `exact`: what they come to, by their number.
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

  /// It has read its sums.
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

/// What schedules came to.
struct Reached {
  int whole = 0, cut = 0;  // those all of whose steps everybody applied, and those that ended early
  int garbage = 0;         // what others than those who aborted got instead of sums
  int apart = 0;           // schedules in which some have applied two steps more than others
  std::string wrong;       // workers that have applied something else than the steps; the seeds
};

/// What all workers have applied differs by one step at most: after a commit that some did not hear of any
/// more.
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

TEST(CommitRule, NobodyAppliesGarbage) {
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
  // Without them the test would be one of nothing.
  EXPECT_GE(reached.whole, 20);
  EXPECT_GE(reached.cut, 200);
  EXPECT_GE(reached.garbage, 20);
}

/// The first of the seeds 1 to 100 with which some worker applies something else than the steps; 0: none.
uint64_t FirstWrong(const Exchange& exchange) {
  const std::vector<at::Tensor> exact = Exact();
  Reached reached;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Play(seed, exact, exchange, reached);
    if (!reached.wrong.empty()) return seed;
  }
  return 0;
}

/// What there was before it: a worker looks at its own group and device, and asks nobody.
TEST(CommitRule, WithoutItGarbageIsApplied) {
  const Exchange alone = [](const collectives::ProcessGroup& group, const std::string& own) {
    const absl::Status status = collectives::GroupStatus(group);
    using Records = std::vector<std::string>;
    return status.ok() ? absl::StatusOr<Records>(Records{own}) : status;
  };
  EXPECT_NE(FirstWrong(alone), 0u);
}

/// All are asked, also by a worker that does not look whether its own device was aborted.
TEST(CommitRule, WithoutALookAtTheOwnDeviceGarbageIsApplied) {
  EXPECT_NE(FirstWrong(collectives::AllGather), 0u);
}

}  // namespace
}  // namespace mtrun::trainers
