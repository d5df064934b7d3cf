#include "trainers/engine/generator.h"

#include <set>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mtrun::engine {
namespace {

TEST(Generator, SeedsDifferForEachOfTheThree) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t step = 0; step < 30; ++step) {
      for (int64_t shard = 0; shard < 10; ++shard) seen.insert(ShardSeed(seed, step, shard));
    }
  }
  EXPECT_EQ(seen.size(), 3000u);
}

TEST(Generator, TheSameShardDrawsTheSameNumbers) {
  at::Generator first = ShardGenerator(1, 2, 3, "a"), second = ShardGenerator(1, 2, 3, "a"),
                other = ShardGenerator(1, 2, 4, "a");
  const at::Tensor a = at::rand({8}, first), b = at::rand({8}, second), c = at::rand({8}, other);
  EXPECT_TRUE(a.equal(b));
  EXPECT_FALSE(a.equal(c));
}

TEST(Generator, PurposesAreApart) {
  EXPECT_EQ(ShardStream(1, 2, 3, "augment").At(0), ShardStream(1, 2, 3, "augment").At(0));
  EXPECT_NE(ShardStream(1, 2, 3, "augment").At(0), ShardStream(1, 2, 3, "dropout").At(0));
}

}  // namespace
}  // namespace mtrun::engine
