// Where the contents of a source's files lie, and reading them from there: a file of its own, a part of an
// archive, or what had to be unpacked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/archive_reader.h"

namespace mtrun::datasets {

/// 16 bytes, for there may be millions.
struct Place {
  enum class Kind : uint8_t { kWhole, kPart, kZipEntry, kSpooled, kLink, kEncrypted };
  int64_t offset = 0;
  uint32_t holder = 0;  // the file that it lies in
  Kind kind = Kind::kWhole;
};

/// Of one file of a source.
constexpr int64_t kMostFileBytes = int64_t{256} << 20;
absl::Status TooLargeFile();

class Contents {
 public:
  /// What has to be unpacked goes to a file without a name in `spool_folder` (made where it is missing),
  /// which vanishes with this process.
  explicit Contents(std::string spool_folder) : spool_folder_(std::move(spool_folder)) {}

  /// A file that holds others.
  absl::StatusOr<uint32_t> AddHolder(const std::string& path);
  int64_t modified(uint32_t holder) const { return holders_[holder].modified; }
  /// Unpacks the current entry, of at most `limit` bytes.
  absl::StatusOr<ByteRange> Spool(ArchiveReader& reader, int64_t limit);

  /// A file of its own, whose size and time of change were found when it was listed. kDataLoss: it has others
  /// now; kInvalidArgument: a device, or more than kMostFileBytes, which is found before all of it is read.
  static absl::StatusOr<std::string> ReadWhole(const std::string& path, int64_t bytes, int64_t modified);
  /// `bytes` bytes from `place` on. Thread-safe after the last Spool. kAborted: the archive was changed since
  /// it was added, so nothing that was listed can be relied on; kInvalidArgument: a link, or encrypted.
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
