// Reads the entries of a tar archive (plain, gzip, bzip2, xz or zstd) or a zip archive one after the other,
// through libarchive. Nothing is unpacked to disk. Entries that are not requested are skipped without being
// read, unless the archive is compressed as a whole. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct archive;

namespace mtrun::datasets {

/// Returns true for the file names of archives: .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst .zip.
bool HasArchiveName(absl::string_view path);
/// Returns true only for .tar.
bool HasPlainTarName(absl::string_view path);

/// A range of an open file.
struct ByteRange {
  int fd = -1;
  int64_t begin = 0, size = 0;
};

class ArchiveReader {
 public:
  /// kNotFound, kPermissionDenied; kInvalidArgument: neither a tar nor a zip archive.
  static absl::StatusOr<ArchiveReader> Open(const std::string& path);
  /// Opens an archive within a file, whose descriptor must outlive the reader. `noun` names it in errors.
  static absl::StatusOr<ArchiveReader> OpenRange(const ByteRange& range, const std::string& noun);
  ArchiveReader(ArchiveReader&&) noexcept;
  ArchiveReader& operator=(ArchiveReader&&) noexcept;
  ~ArchiveReader();

  /// Advances to the next entry that is neither a folder nor hidden; false at the end. kDataLoss: truncated or
  /// damaged.
  absl::StatusOr<bool> Next();
  /// The number of hidden files that Next has passed over, without those in hidden folders.
  int64_t hidden_files() const { return hidden_files_; }
  /// The current entry's path without a leading "./" (UTF-8 if the archive declares its encoding), and
  /// whether it is a regular file.
  const std::string& name() const { return name_; }
  bool is_file() const { return is_file_; }
  /// The name of the earlier entry whose contents a hard link shares; "" for other entries.
  const std::string& hard_link() const { return hard_link_; }
  /// True if it cannot be read without a password.
  bool is_encrypted() const { return is_encrypted_; }
  /// Length of the contents; -1 if only reading them shows it (a zip archive written to a pipe).
  int64_t bytes() const { return bytes_; }

  bool is_zip() const;
  /// Offset of the current entry's header in a zip archive; OpenRange from there starts with this entry.
  int64_t header_at() const { return header_at_; }
  /// Offset of the current entry's contents in the archive's file; -1 if they are not stored there as they
  /// are: compressed, sparse, or in a zip archive.
  int64_t contents_at() const { return contents_at_; }
  /// The contents as a range of the file. REQUIRES: contents_at() >= 0.
  ByteRange contents() const;

  /// Returns the whole contents of the current entry. kInvalidArgument if they exceed `limit` bytes.
  /// REQUIRES: is_file(); call once.
  absl::StatusOr<std::string> Read(int64_t limit);
  /// Passes the contents to `take` in pieces and returns their length. Gaps of sparse files become zeros.
  absl::StatusOr<int64_t> ReadPieces(int64_t limit,
                                     const std::function<absl::Status(std::string_view)>& take);
  /// Returns the length of the current entry's contents by reading them. Ignores a wrong checksum, which Read
  /// reports. REQUIRES and limit as for Read.
  absl::StatusOr<int64_t> Measure(int64_t limit);

 private:
  struct Input;
  ArchiveReader(std::string noun, std::unique_ptr<Input> input);
  absl::Status Failure() const;
  absl::Status UnreadableName() const;
  absl::Status TooLarge(int64_t limit) const;
  absl::StatusOr<bool> NextEntry();
  absl::Status FindContents(bool sparse);
  absl::StatusOr<int64_t> Walk(int64_t limit, bool checked,
                               const std::function<absl::Status(std::string_view)>& take);

  std::string noun_;
  std::unique_ptr<Input> input_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  std::string name_, hard_link_;
  bool is_file_ = false, is_encrypted_ = false;
  int64_t bytes_ = 0, header_at_ = 0, contents_at_ = -1, hidden_files_ = 0;
};

}  // namespace mtrun::datasets
