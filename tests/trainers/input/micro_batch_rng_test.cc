#include "trainers/input/micro_batch_rng.h"

#include <set>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace mtrun::trainers {
namespace {

TEST(Generator, SeedsDifferForEachOfTheThree) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t step = 0; step < 30; ++step) {
      for (int64_t micro_batch = 0; micro_batch < 10; ++micro_batch)
        seen.insert(MicroBatchSeed(seed, step, micro_batch));
    }
  }
  EXPECT_EQ(seen.size(), 3000u);
}

TEST(Generator, TheSameMicroBatchDrawsTheSameNumbers) {
  at::Generator first = MicroBatchGenerator(1, 2, 3, "a"), second = MicroBatchGenerator(1, 2, 3, "a"),
                other = MicroBatchGenerator(1, 2, 4, "a");
  const at::Tensor a = at::rand({8}, first), b = at::rand({8}, second), c = at::rand({8}, other);
  EXPECT_TRUE(a.equal(b));
  EXPECT_FALSE(a.equal(c));
}

TEST(Generator, PurposesAreApart) {
  EXPECT_EQ(MicroBatchStream(1, 2, 3, "augment").At(0), MicroBatchStream(1, 2, 3, "augment").At(0));
  EXPECT_NE(MicroBatchStream(1, 2, 3, "augment").At(0), MicroBatchStream(1, 2, 3, "dropout").At(0));
}

}  // namespace
}  // namespace mtrun::trainers
