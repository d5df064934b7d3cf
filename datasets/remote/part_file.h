// A file that arrives in pieces, over any number of connections and processes: kept beside its place until it
// is whole and has its checksum. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "datasets/index.h"

namespace mtrun::datasets {

class PartFile {
 public:
  /// Continues what an earlier try has left at `<path>.part.<host>`, which is read once for the checksum;
  /// from the first byte, in another file, where that is a damaged shard that somebody still holds
  /// (HoldShard). kUnavailable: another process writes it.
  static absl::StatusOr<PartFile> Open(const std::string& path, const ShardEntry& entry);

  /// Bytes that are there: where the next piece belongs.
  int64_t size() const { return size_; }
  /// Some of them are of an earlier try, and may have been damaged on this disk since.
  bool resumed() const { return resumed_; }
  /// kDataLoss: more than the file has. kResourceExhausted: the disk is full; what fits is kept.
  absl::Status Append(std::string_view bytes);
  /// From the first byte again.
  absl::Status Restart();
  /// Compares the checksum, writes to the disk, marks as verified and puts the file into its place, unless a
  /// verified one is there.
  /// kDataLoss: these are not the bytes that the index names; kAborted: they came, but others lie here, since
  /// somebody writes to the file. Nothing is kept.
  absl::Status Finish();

 private:
  PartFile(std::string path, const ShardEntry& entry, UniqueFd fd);
  absl::Status ReadAgain();
  absl::Status Place();

  std::string path_, part_;
  ShardEntry entry_;
  UniqueFd fd_;
  int64_t size_ = 0;
  bool resumed_ = false;
  std::unique_ptr<Sha256> sum_ = std::make_unique<Sha256>();
};

}  // namespace mtrun::datasets
