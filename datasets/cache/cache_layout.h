// The layout of one machine's cache of data sets (docs/formats.md): folders named by digest, each laid out
// like a packed set. Every process that reads a shard holds a shared lock on it, and a locked shard is not
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
#include "datasets/packed/index.h"

namespace mtrun::datasets {

/// Returns $XDG_CACHE_HOME/mtrun/data, or ~/.cache/mtrun/data.
std::string DefaultCache(const EnvironmentMap& environment);

/// Returns a file name of this machine's own fetcher (a home may be shared). `kind`: "lock", "sock" or "log".
std::string FetcherFile(const std::string& kind);

/// Returns all shards in the order of the splits, train first: {"train/shard_00000.safetensors", entry}.
std::vector<std::pair<std::string, ShardEntry>> ShardsOf(const Index& index);

/// Returns true if only this user and root can have written what is at `path`, in a cache that is `folders`
/// folders above it: other users cannot enter the cache, or none of these files and folders is theirs or
/// writable for them.
bool IsOnlyOurs(const std::string& path, int folders);
/// Makes the cache folder, for this user alone if it did not exist.
absl::Status MakeCache(const std::string& cache);

/// Returns true if the file at `path` is this shard, was verified once, and has not been written to since.
/// The modification time of a verified file is derived from its checksum, so any write changes it. Another
/// user can set any time, so this process reads a file that is not only ours, once for each change of
/// it.
bool IsVerified(const std::string& path, const ShardEntry& entry);
/// Marks the file as verified.
absl::Status MarkVerified(const std::string& path, const ShardEntry& entry);

/// Takes a shared lock on the verified shard and marks it as used now. If the file is not only ours, this
/// reads it all and removes it if it is another one. Returns nullopt if the shard is not in the cache, or an
/// error if this process cannot open, lock or remove it.
absl::StatusOr<std::optional<UniqueFd>> HoldShard(const std::string& path, const ShardEntry& entry);
/// Checks that the process may open `shards` files at once, and `others` besides. kFailedPrecondition: the
/// limit is too low; the message says what to do.
absl::Status CheckFileLimit(const std::string& url, size_t shards, size_t others);
/// Returns true if the held shard has not been changed since it was verified.
bool IsUntouched(const UniqueFd& held, const ShardEntry& entry);
/// Removes the file unless a process holds it. Returns true if it no longer exists.
bool EvictShard(const std::string& path);

/// A file in the cache that may be evicted.
struct CachedFile {
  std::string path;
  int64_t bytes = 0;
  int64_t used_ns = 0;  // since 1970
  bool operator==(const CachedFile&) const = default;
};
/// Returns all shards in the cache, of any set, including unfinished ones. Ignores all other files.
std::vector<CachedFile> CachedFiles(const std::string& cache);
/// Returns the path of a file in the cache after it is finished. Pure.
std::string WholeOf(const std::string& path);
/// Sorts the files, least recently used first. Pure.
std::vector<CachedFile> InOrderOfUse(std::vector<CachedFile> files);

}  // namespace mtrun::datasets
