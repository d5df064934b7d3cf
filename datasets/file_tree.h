// The files of a source: a folder on the disk, or an archive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include "absl/strings/string_view.h"

#include "absl/status/statusor.h"

namespace mtrun::datasets {

struct SourceFile {
  std::string path;      // in the source, names between "/"; a folder where files belong ends with one
  int64_t bytes = 0;     // of its contents
  int64_t modified = 0;  // nanoseconds since 1970
  bool is_link = false;  // in an archive: it cannot be read
};

/// Opened and listed. Const methods are thread-safe.
class FileTree {
 public:
  virtual ~FileTree() = default;
  /// In no particular order.
  const std::vector<SourceFile>& files() const { return files_; }
  /// The contents of files()[i]. kDataLoss: it is no longer as it was listed; kInvalidArgument: a link in an
  /// archive, or more than 256 MiB.
  virtual absl::StatusOr<std::string> Read(size_t i) const = 0;

 protected:
  std::vector<SourceFile> files_;
};

/// The names of folders that are splits: train, val, valid, validation, test.
bool IsSplitFolder(absl::string_view name);

/// A folder or a tar archive, compressed or not. Of a folder that has split folders only these are listed.
/// What an archive holds goes uncompressed to a file without a name in `spool_folder` (made where it is
/// missing) and vanishes with this process.
absl::StatusOr<std::unique_ptr<FileTree>> OpenFileTree(const std::string& source,
                                                       const std::string& spool_folder);

}  // namespace mtrun::datasets
