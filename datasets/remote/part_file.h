// A file that arrives in pieces, over any number of connections and processes. It is kept beside its final
// path until it is complete and matches its checksum. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

class PartFile {
 public:
  /// Continues the earlier try in `<path>.part.<host>`, which is read once for the checksum. Starts a new
  /// file if that is a damaged shard and held (HoldShard). kUnavailable: another process writes it.
  static absl::StatusOr<PartFile> Open(const std::string& path, const ShardEntry& entry);

  /// The number of bytes stored: the offset of the next piece.
  int64_t size() const { return size_; }
  /// True if some bytes are from an earlier try, and may have been damaged on disk since.
  bool resumed() const { return resumed_; }
  /// kDataLoss: more bytes than the file has. kResourceExhausted: the disk is full; keeps what fits.
  absl::Status Append(std::string_view bytes);
  /// Starts again from the first byte.
  absl::Status Restart();
  /// Compares the checksum, writes to disk, marks as verified and moves the file into place, unless a
  /// verified one is there. kDataLoss: the bytes do not match the index; kAborted: they did, but the file
  /// differs because another process writes to it. In both cases the bytes are discarded.
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
