// Finds the packed sets below a folder.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/packed/index.h"

namespace mtrun::mtdata {

struct ServedSet {
  std::string name;  // the folder's path below the root; "" for the root itself
  datasets::Index index;
};

/// Opens the root folder for lookups below it.
absl::StatusOr<UniqueFd> OpenRoot(const std::string& root);

/// Finds sets in `root` and up to two folders below it, ordered by name, a thousand at most. Unreadable sets
/// are left out. Sets with a missing file or one that links outside the root, which is not served, are left
/// out too; their names are added to `outside`.
std::vector<ServedSet> FindSets(const std::string& root, std::vector<std::string>* outside = nullptr);

/// Returns a table for people: name, images, splits, size, digest.
std::string TableOf(const std::vector<ServedSet>& sets);
/// Returns [{"name": ..., "digest": ..., "images": ..., "bytes": ...}, ...].
std::string JsonOf(const std::vector<ServedSet>& sets);

/// Returns whether `names` can be a file of a packed set: <set>/index.json or
/// <set>/<split>/shard_00000.safetensors. No other file below the root is served. Pure.
bool IsFileOfSet(const std::vector<std::string>& names);

}  // namespace mtrun::mtdata
