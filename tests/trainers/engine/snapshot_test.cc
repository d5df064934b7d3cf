#include "trainers/engine/snapshot.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mtrun::engine {
namespace {

using ::testing::HasSubstr;

const NamedTensors kWeights = {
    {"a.weight", at::arange(24, at::kFloat).reshape({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast)},
    {"a.bias", at::arange(3, at::kBFloat16)},
    {"none", at::empty({0, 5})}};
const NamedTensors kRest = {{"step", at::scalar_tensor(7, at::kLong)},
                            {"transposed", at::arange(6, at::kDouble).reshape({2, 3}).t()}};

checkpoints::Snapshot Take(SnapshotMemory& memory, const NamedTensors& weights = kWeights) {
  auto snapshot = memory.Take(5, weights, kRest, "{}");
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return *std::move(snapshot);
}

void ExpectHolds(const checkpoints::TensorFile& file, const NamedTensors& tensors) {
  ASSERT_EQ(file.infos.size(), tensors.size());
  ASSERT_EQ(file.bytes.size(), tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    const at::Tensor want = tensors[k].second.contiguous();
    EXPECT_EQ(file.infos[k].name, tensors[k].first);
    EXPECT_EQ(file.infos[k].shape, want.sizes().vec());
    ASSERT_EQ(file.bytes[k].size(), want.nbytes());
    EXPECT_EQ(std::memcmp(file.bytes[k].data(), want.const_data_ptr(), want.nbytes()), 0) << tensors[k].first;
  }
}

TEST(SnapshotTest, HoldsEveryTensorRowMajor) {
  SnapshotMemory memory;
  const checkpoints::Snapshot snapshot = Take(memory);
  EXPECT_EQ(snapshot.step, 5);
  EXPECT_EQ(snapshot.state, "{}");
  EXPECT_EQ(snapshot.arrived, nullptr);  // on the CPU everything is there
  ExpectHolds(snapshot.model, kWeights);
  ExpectHolds(snapshot.optimizer, kRest);
}

TEST(SnapshotTest, StaysAsItWasWhenTrainingGoesOn) {
  const NamedTensors weights = {{"w", at::ones({100})}};
  SnapshotMemory memory;
  const checkpoints::Snapshot snapshot = Take(memory, weights);
  weights[0].second.fill_(2);
  ExpectHolds(snapshot.model, {{"w", at::ones({100})}});
}

TEST(SnapshotTest, MemoryIsUsedAgainWhenNobodyReadsItAnyMore) {
  SnapshotMemory memory;
  const void* first = nullptr;
  {
    const checkpoints::Snapshot written = Take(memory);
    first = written.owner.get();
    EXPECT_NE(Take(memory).owner.get(), first) << "it is still being written";
  }
  const checkpoints::Snapshot again = Take(memory), beside = Take(memory);
  EXPECT_EQ(again.owner.get(), first);
  ExpectHolds(again.model, kWeights);
  ExpectHolds(beside.model, kWeights);
  // More than there was room for.
  const NamedTensors large = {{"w", at::rand({1000})}};
  const checkpoints::Snapshot grown = Take(memory, large);
  ExpectHolds(grown.model, large);
  ExpectHolds(again.model, kWeights);
}

TEST(SnapshotTest, ADtypeThatFilesLackIsNamed) {
  SnapshotMemory memory;
  const auto snapshot = memory.Take(0, {{"z", at::zeros({2}, at::kComplexFloat)}}, {}, "");
  EXPECT_EQ(snapshot.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(snapshot.status().message(), HasSubstr("z has a dtype"));
}

}  // namespace
}  // namespace mtrun::engine
