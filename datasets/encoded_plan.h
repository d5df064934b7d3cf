// How the images of a source become shards of encoded images, known before any is decoded. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "datasets/image_files.h"
#include "datasets/image_rules.h"

namespace mtrun::datasets {

/// Images first .. first + count - 1 of the listing, all of one split.
struct ShardPlan {
  std::string split;
  size_t number = 0;  // of the shard in its split
  size_t first = 0, count = 0;
  bool operator==(const ShardPlan&) const = default;
};

/// Cuts the listing, whose images of a split follow each other: a shard has at least one image, and no
/// further one that would make the source's files more than `shard_bytes` together. The sizes are those of
/// the source, so that the cut does not depend on how images encode.
std::vector<ShardPlan> PlanShards(const ImageFiles& files, int64_t shard_bytes);

/// 16 hexadecimal digits that name an import: equal for equal sources (paths, sizes, times of change), rules
/// and cuts, and what the program reads, so that another attempt finds the shards of the first and only what
/// it would have made itself. `further_formats`: ReadsFurtherFormats.
std::string ImportKey(const ImageFiles& files, const ImageRules& rules, int64_t shard_bytes,
                      bool further_formats);

}  // namespace mtrun::datasets
