#include "trainers/run/files/snapshot.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace mtrun::trainers {
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
  EXPECT_EQ(snapshot.arrived, nullptr);  // on the CPU the copy is complete at once
  ExpectHolds(snapshot.model, kWeights);
  ExpectHolds(snapshot.optimizer, kRest);
}

/// The checkpoint fails, but training continues.
TEST(SnapshotTest, ReportsExhaustedMemory) {
  SnapshotMemory memory;
  const checkpoints::Snapshot snapshot = Take(memory, {{"huge", at::ones({1}).expand({int64_t{1} << 55})}});
  EXPECT_EQ(snapshot.step, 5);
  ASSERT_TRUE(snapshot.arrived);
  EXPECT_THAT(std::string(snapshot.arrived().message()), HasSubstr("copy the run's state: "));
  EXPECT_TRUE(snapshot.model.infos.empty());
  ExpectHolds(Take(memory).model, kWeights);
}

TEST(SnapshotTest, IsUnaffectedByFurtherTraining) {
  const NamedTensors weights = {{"w", at::ones({100})}};
  SnapshotMemory memory;
  const checkpoints::Snapshot snapshot = Take(memory, weights);
  weights[0].second.fill_(2);
  ExpectHolds(snapshot.model, {{"w", at::ones({100})}});
}

TEST(SnapshotTest, MemoryIsReusedAfterItsLastReader) {
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
  // More than the memory that was allocated before.
  const NamedTensors large = {{"w", at::rand({1000})}};
  const checkpoints::Snapshot grown = Take(memory, large);
  ExpectHolds(grown.model, large);
  ExpectHolds(again.model, kWeights);
}

/// Returns the snapshot as it would be read back from the disk.
checkpoints::Checkpoint Saved(const checkpoints::Snapshot& snapshot) {
  const auto bytes = [](const checkpoints::TensorFile& file) {
    const auto header = datasets::LayOutTensors(file.infos, {});
    std::string text = *datasets::EncodeSafetensorsHeader(*header);
    for (const auto& span : file.bytes) text.append(span.begin(), span.end());
    return text;
  };
  checkpoints::Checkpoint checkpoint;
  checkpoint.model = bytes(snapshot.model);
  checkpoint.optimizer = bytes(snapshot.optimizer);
  return checkpoint;
}

/// A run can continue in another precision, with its own loss scale or without one.
TEST(SnapshotTest, LossScaleMayBeMissingOrUnneeded) {
  const auto rest = [](float momentum, std::optional<float> scale) {
    NamedTensors tensors = {{"optimizer/w.momentum_buffer", at::full({2}, momentum)}};
    if (scale) tensors.emplace_back("scaler/scale", at::full({}, *scale));
    return tensors;
  };
  for (const bool saved_scale : {false, true}) {
    for (const bool scale : {false, true}) {
      SnapshotMemory memory;
      const NamedTensors from = rest(3, saved_scale ? std::optional<float>(8) : std::nullopt);
      const auto snapshot = memory.Take(0, kWeights, from, "");
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      const NamedTensors to = rest(1, scale ? std::optional<float>(2) : std::nullopt);
      const absl::Status restored = Restore(Saved(*snapshot), kWeights, to);
      ASSERT_TRUE(restored.ok()) << restored;
      EXPECT_EQ(to[0].second[0].item<float>(), 3);
      if (scale) {
        EXPECT_EQ(to[1].second.item<float>(), saved_scale ? 8 : 2);
      }
    }
  }
}

TEST(SnapshotTest, UnsupportedDtypeIsNamed) {
  SnapshotMemory memory;
  const auto snapshot = memory.Take(0, {{"z", at::zeros({2}, at::kComplexFloat)}}, {}, "");
  EXPECT_EQ(snapshot.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(snapshot.status().message(), HasSubstr("z has a dtype"));
}

}  // namespace
}  // namespace mtrun::trainers
