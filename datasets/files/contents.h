// Reads the contents of a source's files: separate files, parts of an archive, or unpacked data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/files/archive_reader.h"

namespace mtrun::datasets {

/// Location of one file's contents. 16 bytes, because there may be millions.
struct Place {
  enum class Kind : uint8_t { kWhole, kPart, kZipEntry, kSpooled, kLink, kEncrypted };
  int64_t offset = 0;
  uint32_t holder = 0;  // the file that contains it
  Kind kind = Kind::kWhole;
};

/// Limit of one file of a source.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
absl::Status TooLargeFile();

class Contents {
 public:
  /// Unpacks data to an unnamed file in `spool_folder` (created if missing), removed when this process ends.
  explicit Contents(std::string spool_folder) : spool_folder_(std::move(spool_folder)) {}

  /// Adds a file that contains others; returns its number.
  absl::StatusOr<uint32_t> AddHolder(const std::string& path);
  int64_t modified(uint32_t holder) const { return holders_[holder].modified; }
  /// Unpacks the current entry, of at most `limit` bytes.
  absl::StatusOr<ByteRange> Spool(ArchiveReader& reader, int64_t limit);

  /// Reads a separate file, whose size and modification time were listed before. kDataLoss: they have
  /// changed; kInvalidArgument: a device, or more than kMaxFileBytes (detected before all of it is read).
  static absl::StatusOr<std::string> ReadWhole(const std::string& path, int64_t bytes, int64_t modified);
  /// Reads `bytes` bytes at `place`. Thread-safe after the last Spool. kAborted: the archive was changed
  /// since it was added, so the listing is invalid; kInvalidArgument: a link, or encrypted.
  absl::StatusOr<std::string> Read(const Place& place, int64_t bytes) const;

 private:
  struct Holder {
    std::string path;
    int64_t bytes = 0, modified = 0;
  };
  absl::StatusOr<UniqueFd> OpenUnchanged(const Holder& holder) const;

  const std::string spool_folder_;
  std::vector<Holder> holders_;
  UniqueFd spool_;
  int64_t spooled_ = 0;
};

}  // namespace mtrun::datasets
