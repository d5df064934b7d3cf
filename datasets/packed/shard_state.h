// State of an import's finished shard, in a file beside it until the set is complete. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

struct ShardState {
  ShardEntry entry;                                       // no images: the shard has no file
  ImageSize smallest, largest;                            // of its images, each side separately
  int64_t oriented = 0;                                   // images whose files had an orientation
  std::vector<std::pair<int64_t, std::string>> bad = {};  // planned images that are left out, and why
  bool operator==(const ShardState&) const = default;
};

std::string EncodeShardState(const ShardState& state);
/// kDataLoss: not written by EncodeShardState.
absl::StatusOr<ShardState> DecodeShardState(std::string_view text);

}  // namespace mtrun::datasets
