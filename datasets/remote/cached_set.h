// A set's folder in the cache, as seen by the fetcher. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

class CachedSet {
 public:
  /// Makes the folder `<cache>/<digest>` from `text`, an index.json. Errors as for DecodeIndex.
  static absl::StatusOr<CachedSet> Make(const std::string& cache, const std::string& text);
  /// Returns the set that was last read from `url`, as far as it is cached; kNotFound if there is none.
  static absl::StatusOr<CachedSet> Remembered(const std::string& cache, const std::string& url);
  absl::Status Remember(const std::string& cache, const std::string& url) const;

  const std::string& digest() const { return digest_; }
  /// Returns nullptr if the set has no such file.
  const ShardEntry* Find(const std::string& file) const;
  std::string PathOf(const std::string& file) const { return folder_ + "/" + file; }
  bool Has(const std::string& file) const { return IsVerified(PathOf(file), *Find(file)); }
  /// Turns a file that was written to since it was verified into a partial file, whose checksum is compared
  /// before use. PartFile leaves it to the processes that hold it.
  void SetAside(const std::string& file) const;

 private:
  std::string digest_, folder_;
  std::map<std::string, ShardEntry> entries_;
};

/// Makes space for `need` more bytes: below `bound` for the whole cache (0: no limit) and, with `full`, on
/// the disk. Evicts files that no process holds and `may_go` allows. kResourceExhausted says what is in use.
absl::Status MakeRoom(const std::string& cache, int64_t need, int64_t bound, bool full,
                      const std::function<bool(const std::string& path)>& may_go);

}  // namespace mtrun::datasets
