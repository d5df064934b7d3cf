// Divides the images of a source into shards of encoded images before any is decoded. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "datasets/import/image_files.h"
#include "datasets/import/image_rules.h"

namespace mtrun::datasets {

/// Images first .. first + count - 1 of the listing, all of one split.
struct ShardPlan {
  std::string split;
  size_t number = 0;  // number of the shard in its split
  size_t first = 0, count = 0;
  bool operator==(const ShardPlan&) const = default;
};

/// Cuts the listing, in which the images of each split are contiguous, into shards. Ends a shard before the
/// image that would make its source files exceed `shard_bytes`; a shard has at least one image. Uses the
/// sizes in the source, so the result does not depend on the encoder.
std::vector<ShardPlan> PlanShards(const ImageFiles& files, int64_t shard_bytes);

/// Returns 16 hexadecimal digits that identify an import. The key is equal if sources (paths, sizes,
/// modification times), rules and shards are equal, so a later attempt reuses only shards that it would have
/// made itself. Another release whose decoders differ has other keys.
std::string ImportKey(const ImageFiles& files, const ImageRules& rules, int64_t shard_bytes);

}  // namespace mtrun::datasets
