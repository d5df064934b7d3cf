// A set's folder in the cache, as the fetcher fills it. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/index.h"

namespace mtrun::datasets {

class CachedSet {
 public:
  /// `text` is an index.json; makes the folder `<cache>/<digest>` with it. kDataLoss, kInvalidArgument as
  /// DecodeIndex.
  static absl::StatusOr<CachedSet> Make(const std::string& cache, const std::string& text);
  /// The set that was last read from `url`, as far as it is here; kNotFound for none.
  static absl::StatusOr<CachedSet> Remembered(const std::string& cache, const std::string& url);
  absl::Status Remember(const std::string& cache, const std::string& url) const;

  const std::string& digest() const { return digest_; }
  /// nullptr: no file of the set.
  const ShardEntry* Find(const std::string& file) const;
  std::string PathOf(const std::string& file) const { return folder_ + "/" + file; }
  bool Has(const std::string& file) const { return IsVerified(PathOf(file), *Find(file)); }
  /// What was written to since it was verified becomes a part again, whose checksum is compared before use;
  /// PartFile leaves it to those who hold it.
  void SetAside(const std::string& file) const;

 private:
  std::string digest_, folder_;
  std::map<std::string, ShardEntry> entries_;
};

/// Room for `need` more bytes: below `bound` for the whole cache (0: no bound) and, with `full`, on the disk.
/// Evicts what nobody holds and `may_go` allows. kResourceExhausted says how much is held by whom.
absl::Status MakeRoom(const std::string& cache, int64_t need, int64_t bound, bool full,
                      const std::function<bool(const std::string& path)>& may_go);

}  // namespace mtrun::datasets
