// The files of a source: folders on the disk, archives, archives in archives and in folders.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "datasets/contents.h"
#include "datasets/tree_listing.h"

namespace mtrun::datasets {

struct SourceFile {
  absl::string_view path;  // in the source, names between "/"; a folder where files belong ends with one
  int64_t bytes = 0;       // of its contents
  int64_t modified = 0;    // nanoseconds since 1970; of the archive that holds it
};

/// A folder or an archive, and what stands before the paths of its files: "" or "train/".
struct TreeSource {
  std::string path;
  std::string prefix = "";
  bool operator==(const TreeSource&) const = default;
};

/// Opened and listed. Const methods are thread-safe.
class FileTree {
 public:
  /// `any_depth`: folders are listed however deep they lie, and not only as deep as split/class/image.
  explicit FileTree(const std::string& spool_folder, bool any_depth = false)
      : any_depth_(any_depth), contents_(spool_folder) {}
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  /// A folder: of one that has split folders only these are listed, and all else is counted; where it has one
  /// and a prefix, what lies in that is of the prefix's split. A .tar in the place of a class folder is
  /// listed as a folder of its name.
  absl::Status AddFolder(const std::string& folder, const std::string& prefix);
  /// A tar archive, compressed or not, or a zip archive; a .tar in it is listed as a folder of its name,
  /// which is how ImageNet is distributed. What lies in an uncompressed tar or in a zip archive is read from
  /// there; of a compressed tar it is unpacked.
  absl::Status AddArchive(const std::string& path, const std::string& prefix);
  /// The same of an archive that is all of the prefix's split, whatever split folder of its own its images
  /// may all lie in.
  absl::Status AddArchiveOfASplit(const std::string& path, const std::string& prefix);

  /// What lies in the folders and is not listed.
  const LeftOut& passed_over() const { return passed_over_; }
  /// In no particular order.
  const std::vector<SourceFile>& files() const { return files_; }
  /// The contents of files()[i]. kDataLoss: it is damaged or no longer as it was listed; kInvalidArgument: a
  /// link in an archive, a device, encrypted, or more than 256 MiB; kAborted: the archive was changed.
  absl::StatusOr<std::string> Read(size_t i) const;

 private:
  struct Level;  // of an archive in an archive
  absl::string_view Keep(absl::string_view text);
  void Add(absl::string_view path, int64_t bytes, int64_t modified, const Place& place);
  void CountBeside(const std::string& path, const std::string& name);
  absl::Status Collect(uint32_t root, const std::string& folder, const std::string& prefix, int depth);
  absl::Status ListEntries(ArchiveReader& reader, const Level& level);
  absl::Status AddEntry(ArchiveReader& reader, const Level& level);
  absl::Status ListNested(ArchiveReader& reader, const Level& level);

  const bool any_depth_;
  TimePoint said_ = MonotonicNow();  // when the log last told how far the listing is
  Contents contents_;
  std::vector<SourceFile> files_;
  std::vector<Place> places_;        // of files_
  std::vector<std::string> roots_;   // of folders: what stands before a file's path without its prefix
  std::vector<size_t> prefix_size_;  // of roots_
  LeftOut passed_over_;
  std::deque<std::string> texts_;  // what paths point into, for a text of its own takes twice the memory
};

/// The names of folders that are splits: train, val, valid, validation, test.
bool IsSplitFolder(absl::string_view name);

/// Opens and lists folders and archives.
absl::StatusOr<std::shared_ptr<const FileTree>> OpenFileTree(const std::vector<TreeSource>& sources,
                                                             const std::string& spool_folder,
                                                             bool any_depth = false);

}  // namespace mtrun::datasets
