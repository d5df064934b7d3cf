#include "trainers/program/data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {

using datasets::PackedSplit;

absl::Status CheckOrder(datasets::Shuffle shuffle, const PackedSplit& train) {
  constexpr size_t kMostShards = 8192;  // 12 digits and a comma each fit a line of the ledger
  const size_t shards = train.shard_counts().size();
  if (shuffle != datasets::Shuffle::kStreams || shards <= kMostShards) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--shuffle streams: the training images lie in ", shards,
                                                 " shards, at most ", kMostShards,
                                                 " can be streamed; import them with a larger --shard_mib"));
}

absl::StatusOr<RunData> OpenData(const std::string& folder, bool needs_test) {
  MT_ASSIGN_OR_RETURN(PackedSplit train, PackedSplit::Open(folder, "train"));
  absl::StatusOr<PackedSplit> test = PackedSplit::Open(folder, "test");
  if (absl::IsNotFound(test.status())) {
    absl::StatusOr<PackedSplit> val = PackedSplit::Open(folder, "val");
    if (!absl::IsNotFound(val.status())) test = std::move(val);
  }
  if (!needs_test && absl::IsNotFound(test.status())) test = PackedSplit::Open(folder, "train");
  MT_RETURN_IF_ERROR(test.status());
  if (train.size() == 0 || test->size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": the ", train.size() == 0 ? "train" : "test", " split holds no images"));
  }
  return RunData{std::move(train), *std::move(test)};
}

}  // namespace mtrun::trainers
