// Which packed sets lie below a folder.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/index.h"

namespace mtrun::mtdata {

struct ServedSet {
  std::string name;  // of its folder below the root; "" for the root itself
  datasets::Index index;
};

/// Opened to look below it.
absl::StatusOr<UniqueFd> OpenRoot(const std::string& root);

/// Those in `root` itself and up to two folders below it, by name, a thousand at most. What cannot be read is
/// left out. So are sets of which a file is missing or lies elsewhere and is linked to, which is not served:
/// their names are added to `outside`.
std::vector<ServedSet> FindSets(const std::string& root, std::vector<std::string>* outside = nullptr);

/// A table for people: name, images, splits, size, digest.
std::string TableOf(const std::vector<ServedSet>& sets);
/// [{"name": ..., "digest": ..., "images": ..., "bytes": ...}, ...]
std::string JsonOf(const std::vector<ServedSet>& sets);

/// Whether `names` may be a file of a packed set: <set>/index.json or <set>/<split>/shard_00000.safetensors.
/// Nothing else below the root is given away. Pure.
bool IsFileOfSet(const std::vector<std::string>& names);

}  // namespace mtrun::mtdata
