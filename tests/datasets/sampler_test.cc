#include "datasets/order/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::Ne;

std::vector<int64_t> Epoch(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> ids;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const std::vector<int64_t> part = sampler.Step(epoch, step);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

std::vector<int64_t> Identity(int64_t size) {
  std::vector<int64_t> ids(size);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

std::vector<int64_t> Sorted(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Computed by the Python code in docs/formats.md.
TEST(SamplerTest, GoldenValues) {
  EXPECT_THAT(Sampler(0, 10, {10, 10}, true).Step(0, 0), ElementsAre(3, 5, 7, 6, 9, 1, 2, 0, 4, 8));
  EXPECT_THAT(Sampler(42, 60000, {8, 8}, true).Step(3, 0),
              ElementsAre(34527, 55943, 17116, 25801, 19992, 18238, 40414, 57295));
  const Sampler imagenet(~uint64_t{0}, 1281167, {1, 1}, true);
  EXPECT_THAT(imagenet.Step(100, 0), ElementsAre(35556));
  EXPECT_THAT(imagenet.Step(100, 1281166), ElementsAre(82455));
  EXPECT_THAT(Sampler(7, 1000000000000, {3, 3}, true).Step(0, 0),
              ElementsAre(392698126070, 714705247757, 777918749161));
}

/// A set of 4^k images is permuted in a domain of exactly its size: one bit more would be another order.
TEST(SamplerTest, GoldenValuesOfPowersOfFour) {
  const auto first = [](int64_t size) { return Sampler(42, size, {4, 4}, true).Step(3, 0); };
  EXPECT_THAT(first(256), ElementsAre(222, 55, 78, 177));
  EXPECT_THAT(first(1024), ElementsAre(843, 369, 367, 573));
  EXPECT_THAT(first(4096), ElementsAre(3271, 3579, 3148, 2650));
  EXPECT_THAT(first(65536), ElementsAre(34527, 55943, 17116, 25801));
}

TEST(SamplerTest, EachEpochIsAPermutation) {
  for (const int64_t size :
       {1, 2, 3, 4, 5, 7, 13, 15, 16, 17, 31, 64, 97, 255, 256, 257, 1000, 1009, 4096, 4097, 65537}) {
    for (const int64_t epoch : {0, 1, 2}) {
      const Sampler sampler(1234 + size, size, {32, 8}, true);
      EXPECT_EQ(Sorted(Epoch(sampler, epoch)), Identity(size)) << "size " << size << " epoch " << epoch;
    }
  }
}

TEST(SamplerTest, WithoutShuffleTheOrderIsTheFilesOrder) {
  const Sampler sampler(5, 100, {16, 4}, false);
  EXPECT_EQ(Epoch(sampler, 0), Identity(100));
  EXPECT_EQ(Epoch(sampler, 9), Identity(100));
}

TEST(SamplerTest, ShardsConcatenateToTheStep) {
  for (const BatchPlan plan : {BatchPlan{16, 4}, {16, 16}, {10, 3}, {7, 1}, {5, 8}, {1, 1}, {64, 7}}) {
    const Sampler sampler(3, 101, plan, true);
    for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      std::vector<int64_t> joined;
      for (int64_t micro_batch = 0; micro_batch < plan.micro_batches(); ++micro_batch) {
        const std::vector<int64_t> ids = sampler.MicroBatch(2, step, micro_batch);
        EXPECT_EQ(static_cast<int64_t>(ids.size()), sampler.samples_in_micro_batch(step, micro_batch));
        joined.insert(joined.end(), ids.begin(), ids.end());
      }
      EXPECT_EQ(joined, sampler.Step(2, step))
          << "B " << plan.global_batch << " b " << plan.micro_batch << " step " << step;
      EXPECT_EQ(static_cast<int64_t>(joined.size()), sampler.samples_in_step(step));
    }
  }
}

TEST(SamplerTest, CountsOfAShortLastStep) {
  const Sampler sampler(0, 21, {10, 4}, true);  // steps of 10, 10, 1; micro-batches of 4, 4, 2
  EXPECT_EQ(sampler.steps_per_epoch(), 3);
  EXPECT_EQ(sampler.samples_in_step(0), 10);
  EXPECT_EQ(sampler.samples_in_step(2), 1);
  EXPECT_EQ(sampler.samples_in_step(3), 0);
  EXPECT_EQ(sampler.samples_in_micro_batch(0, 2), 2);
  EXPECT_EQ(sampler.samples_in_micro_batch(0, 3), 0);
  EXPECT_EQ(sampler.samples_in_micro_batch(2, 0), 1);
  EXPECT_EQ(sampler.samples_in_micro_batch(2, 1), 0);
  EXPECT_TRUE(sampler.MicroBatch(0, 2, 2).empty());
  EXPECT_TRUE(sampler.Step(0, 3).empty());
}

TEST(SamplerTest, BatchLargerThanTheSetIsOneStep) {
  const Sampler sampler(0, 5, {64, 16}, true);
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  EXPECT_EQ(Sorted(sampler.Step(0, 0)), Identity(5));
  EXPECT_EQ(sampler.samples_in_micro_batch(0, 1), 0);
}

TEST(SamplerTest, OrderDoesNotDependOnTheBatchSizes) {
  const std::vector<int64_t> whole = Epoch(Sampler(11, 1000, {1000, 1000}, true), 4);
  for (const BatchPlan plan : {BatchPlan{16, 4}, {64, 64}, {7, 3}})
    EXPECT_EQ(Epoch(Sampler(11, 1000, plan, true), 4), whole);
}

// Each of W workers takes a contiguous range of micro-batches; together they take the step, for any W.
TEST(SamplerTest, AnyNumberOfWorkersConsumesEachSampleOnce) {
  const BatchPlan plan{30, 4};
  const Sampler sampler(8, 307, plan, true);
  for (int64_t workers = 1; workers <= plan.micro_batches() + 1; ++workers) {
    std::vector<int64_t> seen;
    for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      for (int64_t worker = 0; worker < workers; ++worker) {
        for (int64_t micro_batch = plan.micro_batches() * worker / workers;
             micro_batch < plan.micro_batches() * (worker + 1) / workers; ++micro_batch) {
          const std::vector<int64_t> ids = sampler.MicroBatch(1, step, micro_batch);
          seen.insert(seen.end(), ids.begin(), ids.end());
        }
      }
    }
    EXPECT_EQ(seen, Epoch(sampler, 1)) << workers << " workers";
  }
}

TEST(SamplerTest, EpochsAndSeedsDiffer) {
  const Sampler a(1, 1000, {100, 10}, true), b(2, 1000, {100, 10}, true);
  EXPECT_THAT(Epoch(a, 0), Ne(Identity(1000)));
  EXPECT_THAT(Epoch(a, 0), Ne(Epoch(a, 1)));
  EXPECT_THAT(Epoch(a, 0), Ne(Epoch(b, 0)));
  EXPECT_EQ(Epoch(a, 3), Epoch(Sampler(1, 1000, {100, 10}, true), 3));
}

// Over many epochs, every id comes first equally often: chi-squared with 9 degrees of freedom, far tail.
TEST(SamplerTest, FirstIdsAreUniform) {
  constexpr int kSize = 10, kEpochs = 20000;
  const Sampler sampler(77, kSize, {1, 1}, true);
  std::vector<double> counts(kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++counts[sampler.Step(epoch, 0)[0]];
  double chi2 = 0;
  for (const double count : counts) chi2 += std::pow(count - kEpochs / kSize, 2) / (kEpochs / kSize);
  EXPECT_LT(chi2, 35.0);
}

// Adjacent positions must have unrelated ids: their correlation is near zero, with few fixed points.
TEST(SamplerTest, SuccessiveIdsAreUnrelated) {
  constexpr int64_t kSize = 50000;
  const std::vector<int64_t> ids = Epoch(Sampler(9, kSize, {kSize, kSize}, true), 0);
  const double mean = (kSize - 1) / 2.0;
  double covariance = 0, variance = 0;
  int64_t fixed = 0;
  for (int64_t i = 0; i + 1 < kSize; ++i) {
    covariance += (ids[i] - mean) * (ids[i + 1] - mean);
    variance += (ids[i] - mean) * (ids[i] - mean);
    fixed += ids[i] == i;
  }
  EXPECT_LT(std::abs(covariance / variance), 0.03);  // 6 sigma is 0.027
  EXPECT_LT(fixed, 15);                              // Poisson with mean 1
}

TEST(SamplerTest, RandomPlansCoverTheEpoch) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("MTRUN_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const int64_t size = 1 + static_cast<int64_t>(random() % 3000);
    const BatchPlan plan{1 + static_cast<int64_t>(random() % 100), 1 + static_cast<int64_t>(random() % 20)};
    const Sampler sampler(random(), size, plan, true);
    std::vector<int64_t> seen;
    for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      for (int64_t micro_batch = 0; micro_batch < plan.micro_batches(); ++micro_batch) {
        for (const int64_t id : sampler.MicroBatch(round, step, micro_batch)) seen.push_back(id);
      }
    }
    EXPECT_EQ(Sorted(seen), Identity(size)) << size << " " << plan.global_batch << " " << plan.micro_batch;
  }
}

TEST(SamplerTest, DigestIsSha256OfLittleEndianIds) {
  EXPECT_EQ(DigestOfIds({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(DigestOfIds({0, 1, -1}), "c20208b42951b0171b134bfdc9cd7a437139e14c8737ca78633305dfa63b793b");
}

// The code printed in docs/formats.md is the formula.
TEST(SamplerTest, DocumentedPythonAgrees) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  std::string expected;
  const Sampler sampler(2026, 1237, {1237, 64}, true);
  for (const int64_t id : sampler.Step(5, 0)) expected += (expected.empty() ? "" : ", ") + std::to_string(id);
  const std::string script =
      "import re; tick = chr(96) * 3; text = open('" + std::string(MT_FORMATS_MD) +
      "').read(); "
      "exec(next(b for b in re.findall(tick + 'python(.*?)' + tick, text, re.S) if 'def sample_id' in b)); "
      "assert [sample_id(2026, 1237, 5, p) for p in range(1237)] == [" +
      expected + "]";
  EXPECT_EQ(std::system(("python3 -c \"" + script + "\"").c_str()), 0);
}

TEST(SamplerDeathTest, ImpossiblePlansAbort) {
  EXPECT_DEATH(Sampler(0, 0, {1, 1}, true), "size 0");
  EXPECT_DEATH(Sampler(0, 1, {1, 0}, true), "micro-batch 0");
}

}  // namespace
}  // namespace mtrun::datasets
