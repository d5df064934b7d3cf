// Entries of a tar archive (plain, gzip, bzip2, xz or zstd), one after the other, through libarchive. Nothing
// is ever unpacked to the disk. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct archive;

namespace mtrun::datasets {

/// True for names that end as archives do: .tar .tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst.
bool HasTarName(const std::string& path);

class TarReader {
 public:
  static absl::StatusOr<TarReader> Open(const std::string& path);

  /// Goes to the next entry that is not a folder; false at the end. kDataLoss: truncated or damaged, with the
  /// archive's path.
  absl::StatusOr<bool> Next();
  /// Of the current entry: its path without a leading "./", and whether it is a regular file.
  const std::string& name() const { return name_; }
  bool is_file() const { return is_file_; }
  /// The whole contents of the current entry. REQUIRES: is_file(); call once. kInvalidArgument beyond `limit`
  /// bytes.
  absl::StatusOr<std::string> Read(int64_t limit);

 private:
  struct Closer {
    void operator()(archive* handle) const;
  };
  TarReader(std::string path, archive* handle) : path_(std::move(path)), archive_(handle) {}
  absl::Status Failure() const;

  std::string path_;
  std::unique_ptr<archive, Closer> archive_;
  std::string name_;
  bool is_file_ = false;
};

}  // namespace mtrun::datasets
