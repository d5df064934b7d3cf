// What an import remembers of a finished shard, in a file beside it until the set is complete. A value; pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/index.h"

namespace mtrun::datasets {

struct ShardState {
  ShardEntry entry;                                       // no images: the shard has no file
  ImageSize smallest, largest;                            // of its images, each side by itself
  std::vector<std::pair<int64_t, std::string>> bad = {};  // images of the plan that are left out, and why
  bool operator==(const ShardState&) const = default;
};

std::string EncodeShardState(const ShardState& state);
/// kDataLoss: not what EncodeShardState wrote.
absl::StatusOr<ShardState> DecodeShardState(std::string_view text);

}  // namespace mtrun::datasets
