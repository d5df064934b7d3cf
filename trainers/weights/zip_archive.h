// Reads the entries of a ZIP file that are stored uncompressed, which is how PyTorch writes its files (with
// zip64 fields or without). Every offset, size and checksum is checked, so that any bytes at all may be
// given, and that none makes this read more than a file has bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::trainers {

class ZipArchive {
 public:
  struct Entry {
    uint64_t header = 0;  // offset of the local header
    uint64_t size = 0;
    uint32_t crc = 0;
    uint16_t flags = 0, method = 0;
    mutable bool verified = false;  // has its checksum
  };

  static bool LooksLikeZip(absl::string_view file);
  /// Reads the central directory; `file` must outlive this. kDataLoss says what is wrong with the file.
  static absl::StatusOr<ZipArchive> Open(absl::string_view file);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Bytes within `file`. kNotFound, or kDataLoss naming the entry (outside the file, checksum), or
  /// kUnimplemented (compressed, encrypted).
  absl::StatusOr<absl::string_view> Read(const std::string& name) const;
  /// How often a checksum was computed: once for each entry that was read.
  int64_t verifications() const { return verifications_; }

 private:
  absl::string_view file_;
  std::map<std::string, Entry> entries_;
  mutable int64_t verifications_ = 0;
};

}  // namespace mtrun::trainers
