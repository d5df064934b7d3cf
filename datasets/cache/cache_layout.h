// The cache of data sets on one machine (docs/formats.md): folders named by digest, as packed sets have them,
// and who uses what. Every process that reads a shard holds a shared lock on it; what is locked is not
// evicted. Free functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "base/worker_env.h"
#include "datasets/index.h"

namespace mtrun::datasets {

/// $XDG_CACHE_HOME/mtrun/data, or ~/.cache/mtrun/data.
std::string DefaultCache(const EnvironmentMap& environment);

/// Of this machine: a cache on a shared home has one fetcher for each. `kind`: "lock", "sock" or "log".
std::string FetcherFile(const std::string& kind);

/// All shards of the set in the order of the splits, train first: {"train/shard_00000.safetensors", entry}.
std::vector<std::pair<std::string, ShardEntry>> ShardsOf(const Index& index);

/// Whether the file at `path` is this shard, verified once and not written to since: a verified file's time
/// of change is made from its checksum, so that any write gives it another one.
bool IsVerified(const std::string& path, const ShardEntry& entry);
/// Marks it so.
absl::Status MarkVerified(const std::string& path, const ShardEntry& entry);

/// A shared lock on the verified shard, nothing when it is not there; it counts as used now. An error: it may
/// be there, and why this process cannot have it.
absl::StatusOr<std::optional<UniqueFd>> HoldShard(const std::string& path, const ShardEntry& entry);
/// Whoever holds all shards of a set at a time has as many files open, and `others`. kFailedPrecondition: the
/// process may not, with what can be done.
absl::Status CheckFileLimit(const std::string& url, size_t shards, size_t others);
/// Whether what is held is as it was verified.
bool IsUntouched(const UniqueFd& held, const ShardEntry& entry);
/// Removes the file unless somebody holds it. True: it is gone.
bool EvictShard(const std::string& path);

/// A file of the cache that may be evicted.
struct CachedFile {
  std::string path;
  int64_t bytes = 0;
  int64_t used_ns = 0;  // since 1970
  bool operator==(const CachedFile&) const = default;
};
/// All shards in the cache, of any set; unfinished ones too. The folder may hold other things, which are not
/// among them.
std::vector<CachedFile> CachedFiles(const std::string& cache);
/// The path that a file of the cache has, or will have once it is finished. Pure.
std::string WholeOf(const std::string& path);
/// The longest unused ones first. Pure.
std::vector<CachedFile> InOrderOfUse(std::vector<CachedFile> files);

}  // namespace mtrun::datasets
