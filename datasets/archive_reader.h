// Entries of a tar archive (plain, gzip, bzip2, xz or zstd) or a zip archive, one after the other, through
// libarchive. Nothing is unpacked to the disk, and what is not asked for is stepped over, not read, where the
// archive is not compressed as a whole. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct archive;

namespace mtrun::datasets {

/// True for names that end as archives do: .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst .zip.
bool HasArchiveName(absl::string_view path);
/// True for .tar alone.
bool HasPlainTarName(absl::string_view path);

/// Bytes of an open file.
struct ByteRange {
  int fd = -1;
  int64_t begin = 0, size = 0;
};

class ArchiveReader {
 public:
  /// kNotFound, kPermissionDenied; kInvalidArgument: neither a tar nor a zip archive.
  static absl::StatusOr<ArchiveReader> Open(const std::string& path);
  /// An archive that is a part of a file, whose descriptor outlives the reader; `noun` names it in errors.
  static absl::StatusOr<ArchiveReader> OpenRange(const ByteRange& range, const std::string& noun);
  ArchiveReader(ArchiveReader&&) noexcept;
  ArchiveReader& operator=(ArchiveReader&&) noexcept;
  ~ArchiveReader();

  /// Goes to the next entry that is not a folder; false at the end. kDataLoss: truncated or damaged, with the
  /// archive's path.
  absl::StatusOr<bool> Next();
  /// Of the current entry: its path without a leading "./", in UTF-8 where the archive says what it is in,
  /// and whether it is a regular file.
  const std::string& name() const { return name_; }
  bool is_file() const { return is_file_; }
  /// It cannot be read without a password.
  bool is_encrypted() const { return is_encrypted_; }
  /// Length of the contents, -1 where only reading them tells (a zip archive that was written to a pipe).
  int64_t bytes() const { return bytes_; }

  bool is_zip() const;
  /// Where the current entry's header begins in a zip archive: OpenRange from there on begins with it.
  int64_t header_at() const { return header_at_; }
  /// Where the current entry's contents begin in the archive's file; -1 where they do not lie there as they
  /// are: compressed, sparse, in a zip archive.
  int64_t contents_at() const { return contents_at_; }
  /// The same as a part of the file. REQUIRES: contents_at() >= 0.
  ByteRange contents() const;

  /// The whole contents of the current entry. REQUIRES: is_file(); call once. kInvalidArgument beyond `limit`
  /// bytes.
  absl::StatusOr<std::string> Read(int64_t limit);
  /// The same in pieces, and their sum. A gap of a sparse file comes as zeros.
  absl::StatusOr<int64_t> ReadPieces(int64_t limit,
                                     const std::function<absl::Status(std::string_view)>& take);
  /// The length of the current entry's contents where only reading them tells, also where they are not those
  /// of their checksum, which Read finds. REQUIRES and limit as Read.
  absl::StatusOr<int64_t> Measure(int64_t limit);

 private:
  struct Input;
  struct Closer {
    void operator()(archive* handle) const;
  };
  ArchiveReader(std::string noun, std::unique_ptr<Input> input);
  absl::Status Failure() const;
  absl::Status UnreadableName() const;
  absl::Status TooLarge(int64_t limit) const;
  absl::Status FindContents(bool sparse);
  absl::StatusOr<int64_t> Walk(int64_t limit, bool checked,
                               const std::function<absl::Status(std::string_view)>& take);

  std::string noun_;
  std::unique_ptr<Input> input_;
  std::unique_ptr<archive, Closer> archive_;
  std::string name_;
  bool is_file_ = false, is_encrypted_ = false;
  int64_t bytes_ = 0, header_at_ = 0, contents_at_ = -1;
};

}  // namespace mtrun::datasets
