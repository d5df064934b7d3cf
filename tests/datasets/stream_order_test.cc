#include "datasets/order/stream_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/order/sampler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;

std::string Name(const BatchPlan& plan, const StreamShards& shards) {
  std::string text = "B " + std::to_string(plan.global_batch) + " b " + std::to_string(plan.micro_batch) +
                     " window " + std::to_string(shards.window) + (shards.fixed ? " fixed" : "") + " shards";
  for (const int64_t count : shards.counts) text += " " + std::to_string(count);
  return text;
}

int64_t ShardOf(const StreamShards& shards, int64_t id) {
  int64_t shard = 0;
  for (; id >= shards.counts[shard]; ++shard) id -= shards.counts[shard];
  return shard;
}

std::vector<int64_t> StreamEpoch(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> ids;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const std::vector<int64_t> part = sampler.Step(epoch, step);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

/// Checks an epoch's invariants; returns the violated one or "".
std::string Violation(uint64_t seed, const BatchPlan& plan, const StreamShards& shards, int64_t epoch) {
  const Sampler sampler(seed, plan, shards);
  const StreamOrder order(seed, plan, shards);
  const int64_t size = order.size();
  std::vector<int64_t> ids = StreamEpoch(sampler, epoch);
  std::sort(ids.begin(), ids.end());
  for (int64_t i = 0; i < size; ++i) {
    if (i >= static_cast<int64_t>(ids.size()) || ids[i] != i) return "not a permutation";
  }
  if (static_cast<int64_t>(ids.size()) != size) return "more than the samples";
  for (int64_t v = 0; v < plan.micro_batches(); ++v) {
    const std::vector<ShardPart> parts = order.Parts(epoch, v);
    std::vector<int64_t> drawn;  // by micro-batch v, over the epoch
    for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const std::vector<int64_t> part = sampler.MicroBatch(epoch, step, v);
      if (static_cast<int64_t>(part.size()) != plan.SamplesInMicroBatch(size, step, v)) return "a count";
      drawn.insert(drawn.end(), part.begin(), part.end());
    }
    if (static_cast<int64_t>(drawn.size()) != order.SamplesOf(v))
      return "another number of a stream's samples";
    // The windows follow each other, and each is drawn completely before the next.
    size_t at = 0;
    for (size_t begin = 0; begin < parts.size(); begin += shards.window) {
      std::set<int64_t> window;
      for (size_t i = begin; i < std::min(parts.size(), begin + shards.window); ++i) {
        if (parts[i].count <= 0 || ShardOf(shards, parts[i].first) != parts[i].shard ||
            ShardOf(shards, parts[i].first + parts[i].count - 1) != parts[i].shard)
          return "a part that is not of its shard";
        for (int64_t k = 0; k < parts[i].count; ++k) window.insert(parts[i].first + k);
      }
      for (size_t i = 0; i < window.size(); ++i) {
        if (window.count(drawn.at(at++)) == 0) return "a sample from beyond the window";
      }
    }
  }
  return "";
}

// All cases of up to three shards of up to three samples, with several batches and windows.
TEST(StreamOrderTest, EverySmallWorldIsExact) {
  int64_t worlds = 0;
  for (int code = 1; code < 4 * 4 * 4; ++code) {
    const std::vector<int64_t> counts = {code % 4, code / 4 % 4, code / 16};
    for (int64_t batch = 1; batch <= 5; ++batch) {
      for (int64_t micro = 1; micro <= batch; ++micro) {
        for (int64_t window = 1; window <= 2; ++window) {
          for (const bool fixed : {false, true}) {
            const StreamShards shards{counts, window, fixed};
            ASSERT_EQ(Violation(code, {batch, micro}, shards, 1), "") << Name({batch, micro}, shards);
            ++worlds;
          }
        }
      }
    }
  }
  EXPECT_EQ(worlds, 63 * 15 * 2 * 2);
}

TEST(StreamOrderTest, RandomWorldsAreExact) {
  rc::check("an epoch holds every sample once, a window at a time", [] {
    const auto counts = *rc::gen::nonEmpty(rc::gen::container<std::vector<int64_t>>(rc::gen::inRange(0, 60)));
    RC_PRE(std::accumulate(counts.begin(), counts.end(), int64_t{0}) > 0);
    const BatchPlan plan{*rc::gen::inRange(1, 40), *rc::gen::inRange(1, 12)};
    const StreamShards shards{counts, *rc::gen::inRange(1, 6), *rc::gen::arbitrary<bool>()};
    const std::string violation =
        Violation(*rc::gen::arbitrary<uint64_t>(), plan, shards, *rc::gen::inRange(0, 5));
    if (!violation.empty()) RC_FAIL(violation + ": " + Name(plan, shards));
  });
}

// Computed by the Python code in docs/formats.md.
TEST(StreamOrderTest, GoldenValues) {
  const StreamShards shards{{4, 3, 5, 2, 6}, 2};
  const Sampler sampler(7, {6, 2}, shards);
  EXPECT_THAT(sampler.Step(0, 0), ElementsAre(4, 12, 3, 7, 18, 15));
  EXPECT_THAT(sampler.Step(3, 3), ElementsAre(1, 7));
  const Sampler fixed(7, {6, 2}, {shards.counts, shards.window, /*fixed=*/true});
  EXPECT_THAT(fixed.Step(0, 0), ElementsAre(0, 6, 7, 8, 18, 15));
  EXPECT_THAT(fixed.Step(3, 3), ElementsAre(6, 5));
}

TEST(StreamOrderTest, EpochsAndSeedsDiffer) {
  const StreamShards shards{std::vector<int64_t>(20, 50), 4};
  const Sampler a(1, {100, 10}, shards), b(2, {100, 10}, shards);
  EXPECT_NE(StreamEpoch(a, 0), StreamEpoch(a, 1));
  EXPECT_NE(StreamEpoch(a, 0), StreamEpoch(b, 0));
  EXPECT_EQ(StreamEpoch(a, 3), StreamEpoch(Sampler(1, {100, 10}, shards), 3));
}

// A worker that computes half of the micro-batches reads about half of the shards, each for a short time.
TEST(StreamOrderTest, WorkerReadsItsShareOfTheShards) {
  const StreamShards shards{std::vector<int64_t>(100, 30), 4};
  const StreamOrder order(5, {80, 10}, shards);
  std::set<int64_t> half;
  for (int64_t v = 0; v < 4; ++v) {
    for (const ShardPart& part : order.Parts(2, v)) half.insert(part.shard);
  }
  EXPECT_GE(half.size(), 50U);
  EXPECT_LE(half.size(), 51U);  // the streams' ends may share one
}

std::set<int64_t> ShardsOfStreams(const StreamOrder& order, int64_t epoch, int64_t begin, int64_t end) {
  std::set<int64_t> shards;
  for (int64_t v = begin; v < end; ++v) {
    for (const ShardPart& part : order.Parts(epoch, v)) shards.insert(part.shard);
  }
  return shards;
}

// A node that keeps its micro-batches fetches at most 1.3 times its share, and nothing in later epochs.
TEST(StreamOrderTest, NodeFetchesItsShareOfFixedStreamsOnce) {
  const BatchPlan plan{.global_batch = 120, .micro_batch = 10};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const StreamOrder fixed(seed, plan, {std::vector<int64_t>(100, 30), 4, /*fixed=*/true}),
        dealt(seed, plan, {std::vector<int64_t>(100, 30), 4});
    for (int64_t node = 0; node < 3; ++node) {
      const auto of = [&](const StreamOrder& order, int64_t epoch) {
        return ShardsOfStreams(order, epoch, 4 * node, 4 * node + 4);
      };
      const std::set<int64_t> share = of(fixed, 0);
      EXPECT_LE(share.size(), 43U) << "1.3 times a third";
      for (int64_t epoch = 1; epoch < 4; ++epoch) EXPECT_EQ(of(fixed, epoch), share) << seed;
      EXPECT_NE(of(dealt, 1), of(dealt, 0));
      // In the last step, shards of other streams are fetched ahead only after all of this node's.
      const ShardsAhead ahead = fixed.Ahead(0, 24, 4 * node, 4 * node + 4);
      const size_t own = share.size() - ahead.this_epoch.size();
      EXPECT_TRUE(std::all_of(ahead.later.begin(), ahead.later.begin() + static_cast<int64_t>(own),
                              [&](int64_t shard) { return share.count(shard) != 0; }));
    }
  }
}

TEST(StreamOrderTest, FixedStreamsMixOtherShardsInEachEpoch) {
  const StreamOrder order(3, {64, 32}, {std::vector<int64_t>(40, 32), 4, /*fixed=*/true});
  std::set<std::set<int64_t>> windows;  // the first of each epoch
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    std::set<int64_t> window;
    const std::vector<ShardPart> parts = order.Parts(epoch, 1);
    for (size_t i = 0; i < 4; ++i) window.insert(parts.at(i).shard);
    windows.insert(window);
  }
  EXPECT_GE(windows.size(), 7U);
}

/// Returns the mean number of classes in a global batch, if the samples are sorted into `classes` classes.
double ClassesOfABatch(const Sampler& sampler, int64_t size, int64_t classes) {
  double sum = 0;
  const int64_t steps = sampler.steps_per_epoch() - 1;  // full ones
  for (int64_t step = 0; step < steps; ++step) {
    std::set<int64_t> seen;
    for (const int64_t id : sampler.Step(0, step)) seen.insert(id * classes / size);
    sum += static_cast<double>(seen.size());
  }
  return sum / static_cast<double>(steps);
}

// The quality stated in docs/formats.md: 100 classes, sorted, in 200 shards.
TEST(StreamOrderTest, MixesTheGivenNumberOfShards) {
  constexpr int64_t kSize = 20000, kClasses = 100;
  const BatchPlan plan{256, 32};  // 8 streams
  const std::vector<int64_t> counts(200, 100);
  const double full = ClassesOfABatch(Sampler(3, kSize, plan, true), kSize, kClasses);
  const double wide = ClassesOfABatch(Sampler(3, plan, {counts, 16}), kSize, kClasses);
  const double narrow = ClassesOfABatch(Sampler(3, plan, {counts, 1}), kSize, kClasses);
  EXPECT_NEAR(full, 92.4, 1);    // 100 (1 - 0.99^256)
  EXPECT_NEAR(narrow, 9.6, 1);   // 8 streams; a third of their micro-batches start another shard
  EXPECT_GT(wide, 0.65 * full);  // 128 shards, 72 classes at most twice
}

// Adjacent samples are not read consecutively.
TEST(StreamOrderTest, NeighboursAreSpread) {
  const StreamShards shards{std::vector<int64_t>(50, 200), 4};
  const std::vector<int64_t> ids = StreamEpoch(Sampler(9, {64, 64}, shards), 0);
  int64_t beside = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) beside += std::abs(ids[i] - ids[i + 1]) == 1;
  EXPECT_LT(beside, 60);  // in 9,999; 2 / 800 of them at random
}

TEST(StreamOrderTest, DocumentedPythonAgrees) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  std::string expected;  // both kinds, one after the other
  for (const bool fixed : {false, true}) {
    const StreamShards shards{{40, 0, 7, 300, 1, 55, 90, 90, 12}, 3, fixed};
    for (const int64_t id : StreamEpoch(Sampler(2026, {50, 16}, shards), 5))
      expected += (expected.empty() ? "" : ", ") + std::to_string(id);
  }
  const std::string script =
      "import re; tick = chr(96) * 3; text = open('" + std::string(MT_FORMATS_MD) +
      "').read(); "
      "[exec(b, globals()) for b in re.findall(tick + 'python(.*?)' + tick, text, "
      "re.S) if 'splitmix' in b or 'stream' in b]; "
      "assert [stream_id(2026, [40, 0, 7, 300, 1, 55, 90, 90, 12], 3, 50, 16, 5, p, f) "
      "for f in (False, True) for p in range(595)] == [" +
      expected + "]";
  EXPECT_EQ(std::system(("python3 -c \"" + script + "\"").c_str()), 0);
}

TEST(StreamOrderDeathTest, ImpossibleWorldsAbort) {
  EXPECT_DEATH(StreamOrder(0, {1, 1}, {{0, 0}, 1}), "no samples");
  EXPECT_DEATH(StreamOrder(0, {1, 1}, {{1}, 0}), "window 0");
}

/// Returns the first step in which these streams use each shard, from the samples of all remaining steps.
std::map<int64_t, int64_t> FirstSteps(const Sampler& sampler, const StreamShards& shards, int64_t from,
                                      int64_t begin, int64_t end) {
  std::map<int64_t, int64_t> first;
  for (int64_t step = from; step < sampler.steps_per_epoch(); ++step) {
    for (int64_t v = begin; v < end; ++v) {
      for (const int64_t id : sampler.MicroBatch(0, step, v)) first.emplace(ShardOf(shards, id), step);
    }
  }
  return first;
}

TEST(StreamOrderTest, ShardsAheadAreInTheOrderOfTheSteps) {
  for (const int64_t window : {1, 3}) {
    const StreamShards shards{{4, 7, 3, 5, 9, 2, 6, 4, 8, 5, 3, 6}, window};
    const BatchPlan plan{.global_batch = 7, .micro_batch = 2};
    const Sampler sampler(5, plan, shards);
    const StreamOrder order(5, plan, shards);
    for (const auto& [from, begin, end] : std::vector<std::array<int64_t, 3>>{
             {0, 0, 4}, {0, 1, 2}, {3, 0, 2}, {7, 2, 4}, {sampler.steps_per_epoch() - 1, 3, 4}, {2, 1, 1}}) {
      SCOPED_TRACE(absl::StrCat("window ", window, " from ", from, " streams ", begin, " to ", end));
      const ShardsAhead ahead = order.Ahead(0, from, begin, end);
      std::map<int64_t, int64_t> first = FirstSteps(sampler, shards, from, begin, end);
      if (window == 1) {  // otherwise a shard may be used later than its window begins
        for (size_t i = 0; i < ahead.this_epoch.size(); ++i) {
          ASSERT_EQ(first.count(ahead.this_epoch[i]), 1u);
          if (i > 0) {
            EXPECT_LE(first[ahead.this_epoch[i - 1]], first[ahead.this_epoch[i]]) << i;
          }
        }
      }
      for (const auto& [shard, step] : first)
        EXPECT_THAT(ahead.this_epoch, testing::Contains(shard)) << "needed in step " << step;
      std::vector<int64_t> all = ahead.this_epoch;
      all.insert(all.end(), ahead.later.begin(), ahead.later.end());
      std::sort(all.begin(), all.end());
      EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    }
  }
}

TEST(StreamOrderTest, LaterShardsBeginWithTheNextEpoch) {
  const StreamShards shards{std::vector<int64_t>(20, 3), 1};
  const StreamOrder order(5, {.global_batch = 6, .micro_batch = 2}, shards);
  const ShardsAhead ahead = order.Ahead(0, 9, 0, 1);  // the last step of an epoch
  ASSERT_EQ(ahead.this_epoch.size(), 1u);
  std::vector<int64_t> next;
  for (const ShardPart& part : order.Parts(1, 0)) {
    if (part.shard != ahead.this_epoch[0]) next.push_back(part.shard);
  }
  ASSERT_GE(next.size(), 6u);
  EXPECT_EQ(
      std::vector<int64_t>(ahead.later.begin(), ahead.later.begin() + static_cast<int64_t>(next.size())),
      next);
}

}  // namespace
}  // namespace mtrun::datasets
