// What the frozen part of a network computes from each image of a split: a row per image, in one file that
// several processes read and write at the same time. A row counts only if its checksum fits its number, its
// bytes and the key. So nothing else has to be ordered or locked: a torn row, and one of other weights or other
// images, is a row that is not there.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/posix.h"

namespace mtrun::trainers {

class FeatureFile {
 public:
  /// Opens the file, which is made if it is missing. `key`: identifies everything that the rows depend on.
  /// kFailedPrecondition if the path is a symbolic link or no ordinary file.
  static absl::StatusOr<FeatureFile> Open(const std::string& path, uint64_t key, int64_t row_bytes);

  /// Reads a row of row_bytes() bytes. Returns false if it is not there.
  bool Read(int64_t row, absl::Span<char> bytes) const;
  absl::Status Write(int64_t row, absl::Span<const char> bytes) const;
  /// Removes all rows, those of other processes too.
  absl::Status Clear() const;
  int64_t row_bytes() const { return row_bytes_; }

 private:
  FeatureFile(UniqueFd fd, std::string path, uint64_t key, int64_t row_bytes);
  uint64_t ChecksumOf(int64_t row, absl::Span<const char> bytes) const;

  UniqueFd fd_;
  std::string path_;
  uint64_t key_;
  int64_t row_bytes_;
};

}  // namespace mtrun::trainers
