#include "trainers/collectives/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainers/collectives/run_ranks.h"

namespace mtrun::collectives {
namespace {

std::vector<const void*> Pointers(const auto& inputs) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  return pointers;
}

uint16_t BFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

float FromBFloat16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

TEST(ReduceTest, AddsInRankOrderBitForBit) {
  std::mt19937_64 random(TestSeed());
  for (size_t world : {1, 2, 3, 8}) {
    for (size_t count : {0, 1, 7, 2047, 2048, 2049, 10000}) {
      std::vector<std::vector<float>> inputs(world, std::vector<float>(count));
      for (auto& input : inputs) {
        for (float& x : input)
          x = std::ldexp(static_cast<float>(random() >> 40), static_cast<int>(random() % 40));
      }
      std::vector<float> expected(count);
      for (size_t i = 0; i < count; ++i) {
        float sum = inputs[0][i];
        for (size_t rank = 1; rank < world; ++rank) sum += inputs[rank][i];
        expected[i] = sum;
      }
      std::vector<float> output(count);
      Reduce(DataType::kFloat32, ReduceOp::kSum, Pointers(inputs), output.data(), count);
      ASSERT_EQ(output, expected) << world << " ranks, " << count << " elements";
    }
  }
}

TEST(ReduceTest, OutputCanAliasAnyInput) {
  for (size_t world : {2, 3, 5}) {
    for (size_t own = 0; own < world; ++own) {
      std::vector<std::vector<double>> inputs(world, std::vector<double>(5000));
      for (size_t rank = 0; rank < world; ++rank) {
        for (size_t i = 0; i < 5000; ++i) inputs[rank][i] = static_cast<double>(i + rank);
      }
      Reduce(DataType::kFloat64, ReduceOp::kSum, Pointers(inputs), inputs[own].data(), 5000);
      for (size_t i = 0; i < 5000; ++i) {
        ASSERT_EQ(inputs[own][i], static_cast<double>(i * world + world * (world - 1) / 2));
      }
    }
  }
}

TEST(ReduceTest, AveragesDivideTheSum) {
  const std::vector<std::vector<float>> inputs = {{1, 2}, {2, 2}, {5, 3}};
  std::vector<float> output(2);
  Reduce(DataType::kFloat32, ReduceOp::kAverage, Pointers(inputs), output.data(), 2);
  EXPECT_EQ(output[0], 8.0f / 3);
  EXPECT_EQ(output[1], 7.0f / 3);
}

TEST(ReduceTest, BFloat16AccumulatesInFloat32AndRoundsOnceToEven) {
  // Rounding to bfloat16 at each step would give 256; the float32 sum is 258, which bfloat16 can hold.
  const std::vector<std::vector<uint16_t>> steps = {{BFloat16(256)}, {BFloat16(1)}, {BFloat16(1)}};
  uint16_t output = 0;
  Reduce(DataType::kBFloat16, ReduceOp::kSum, Pointers(steps), &output, 1);
  EXPECT_EQ(FromBFloat16(output), 258.0f);
  const std::vector<std::vector<uint16_t>> down = {{BFloat16(256)}, {BFloat16(1)}};  // tie: 256 is even
  Reduce(DataType::kBFloat16, ReduceOp::kSum, Pointers(down), &output, 1);
  EXPECT_EQ(FromBFloat16(output), 256.0f);
  const std::vector<std::vector<uint16_t>> up = {{BFloat16(258)}, {BFloat16(1)}};  // tie: 260 is even
  Reduce(DataType::kBFloat16, ReduceOp::kSum, Pointers(up), &output, 1);
  EXPECT_EQ(FromBFloat16(output), 260.0f);
}

TEST(ReduceTest, NotANumberSurvives) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAverage}) {
    for (size_t where : {0, 1, 2}) {
      std::vector<std::vector<float>> inputs = {{1}, {2}, {3}};
      inputs[where][0] = nan;
      float output = 0;
      Reduce(DataType::kFloat32, op, Pointers(inputs), &output, 1);
      EXPECT_TRUE(std::isnan(output)) << static_cast<int>(op) << " input " << where;
    }
  }
  const std::vector<std::vector<uint16_t>> low = {{0x7f81},
                                                  {BFloat16(1)}};  // a NaN whose payload rounding would lose
  uint16_t output = 0;
  Reduce(DataType::kBFloat16, ReduceOp::kSum, Pointers(low), &output, 1);
  EXPECT_TRUE(std::isnan(FromBFloat16(output)));
}

TEST(ReduceTest, IntegersWrapAroundAndCompareSigned) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<int64_t>> inputs = {{most, -5}, {1, 3}};
  std::vector<int64_t> output(2);
  Reduce(DataType::kInt64, ReduceOp::kSum, Pointers(inputs), output.data(), 2);
  EXPECT_EQ(output[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(output[1], -2);
  Reduce(DataType::kInt64, ReduceOp::kMax, Pointers(inputs), output.data(), 2);
  EXPECT_EQ(output[1], 3);
  Reduce(DataType::kInt64, ReduceOp::kMin, Pointers(inputs), output.data(), 2);
  EXPECT_EQ(output[1], -5);
  const std::vector<std::vector<uint8_t>> bytes = {{200}, {100}};
  uint8_t byte = 0;
  Reduce(DataType::kUint8, ReduceOp::kSum, Pointers(bytes), &byte, 1);
  EXPECT_EQ(byte, 44);
}

TEST(ChunkTest, ChunksCoverEverythingOnceOnCacheLines) {
  for (size_t element : {1, 2, 4, 8}) {
    for (int world = 1; world <= 9; ++world) {
      for (size_t count : {0, 1, 15, 16, 17, 127, 1000, 65537}) {
        size_t next = 0;
        for (int rank = 0; rank < world; ++rank) {
          const Chunk chunk = ChunkOf(count, element, rank, world);
          ASSERT_EQ(chunk.begin, next);
          ASSERT_LE(chunk.begin, chunk.end);
          ASSERT_TRUE(chunk.end == count || chunk.end * element % 64 == 0);
          next = chunk.end;
        }
        ASSERT_EQ(next, count);
      }
    }
  }
}

}  // namespace
}  // namespace mtrun::collectives
