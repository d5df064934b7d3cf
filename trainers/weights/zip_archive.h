// Reads ZIP entries that are stored uncompressed, as PyTorch writes them (with or without zip64 fields).
// Every offset, size and checksum is checked, so the input can be arbitrary bytes, and no more bytes are read
// than the file has. If all checksums are 0, the file has none (torch.serialization.set_crc32_options).
// Not thread-safe.
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
    mutable bool verified = false;  // its checksum has been checked
  };

  static bool LooksLikeZip(absl::string_view file);
  /// Reads the central directory. `file` must outlive this. kDataLoss says what is wrong with the file.
  static absl::StatusOr<ZipArchive> Open(absl::string_view file);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Returns an entry's bytes within `file`; kNotFound; kDataLoss, naming the entry (outside the file,
  /// checksum); or kUnimplemented (compressed, encrypted).
  absl::StatusOr<absl::string_view> Read(const std::string& name) const;
  /// Returns how many checksums were computed: one for each entry that was read.
  int64_t verifications() const { return verifications_; }

 private:
  absl::string_view file_;
  std::map<std::string, Entry> entries_;
  bool has_checksums_ = false;
  mutable int64_t verifications_ = 0;
};

}  // namespace mtrun::trainers
