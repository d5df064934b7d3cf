// The files of a source: folders on disk, archives, archives in archives and in folders.
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
#include "datasets/files/contents.h"
#include "datasets/files/tree_listing.h"

namespace mtrun::datasets {

struct SourceFile {
  absl::string_view path;  // in the source, separated by "/"; a folder in the place of a file ends with "/"
  int64_t bytes = 0;       // size of its contents
  int64_t modified = 0;    // nanoseconds since 1970; that of the archive if in one
};

/// A folder, an archive or a folder in an archive (source_path.h), and the prefix of its files' paths: "" or "train/".
struct TreeSource {
  std::string path;
  std::string prefix = "";
  bool operator==(const TreeSource&) const = default;
};

/// The opened and listed sources. Const methods are thread-safe.
class FileTree {
 public:
  /// `any_depth`: lists .tar files at any depth as folders, not only those in the place of a class folder.
  explicit FileTree(const std::string& spool_folder, bool any_depth = false);
  ~FileTree();
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  /// Lists a folder. If it contains split folders, only these are listed, and all other files are counted. If
  /// it contains one split folder and `prefix` is not empty, its files are of the prefix's split. A .tar in
  /// the place of a class folder is listed as a folder of its name.
  absl::Status AddFolder(const std::string& folder, const std::string& prefix);
  /// Lists a tar archive (compressed or not) or a zip archive, or a folder in it: "a.zip/photos". A .tar in it, the layout of ImageNet, is
  /// listed as a folder of its name. A hard link has the contents of its target. Files in an uncompressed tar
  /// or in a zip archive are read there; those in a compressed tar are unpacked.
  absl::Status AddArchive(const std::string& path, const std::string& prefix);
  /// Like AddArchive, but all files are of the prefix's split, even if they are all in a split folder.
  absl::Status AddArchiveOfASplit(const std::string& path, const std::string& prefix);

  /// The files in the folders that are not listed, and hidden files.
  const LeftOut& passed_over() const { return passed_over_; }
  /// In no particular order.
  const std::vector<SourceFile>& files() const { return files_; }
  /// Returns the contents of files()[i]. kDataLoss: damaged, or changed since the listing; kInvalidArgument:
  /// a symbolic link in an archive, a device, encrypted, or above 256 MiB; kAborted: the archive was changed.
  absl::StatusOr<std::string> Read(size_t i) const;

 private:
  struct Level;     // an archive, maybe in another one
  struct HardLink;  // to another file of the archive
  static std::string PathOf(absl::string_view name, const Level& level);
  absl::string_view Keep(absl::string_view text);
  void Add(absl::string_view path, int64_t bytes, int64_t modified, const Place& place);
  void CountBeside(const std::string& path, const std::string& name);
  absl::Status Collect(uint32_t root, const std::string& folder, const std::string& prefix, int depth);
  absl::Status ListEntries(ArchiveReader& reader, const Level& level);
  absl::Status AddEntry(ArchiveReader& reader, const Level& level);
  absl::Status ListNested(ArchiveReader& reader, const Level& level);
  void ResolveLinks(size_t first_file, size_t first_link);

  const bool any_depth_;
  TimePoint said_ = MonotonicNow();  // when the log last reported the number of listed files
  Contents contents_;
  std::vector<SourceFile> files_;
  std::vector<Place> places_;        // locations of files_
  std::vector<HardLink> links_;      // of the archives that are being listed
  std::vector<std::string> roots_;   // folders: file path without its prefix is relative to one
  std::vector<size_t> prefix_size_;  // prefix lengths of roots_
  LeftOut passed_over_;
  std::deque<std::string> texts_;  // storage of the paths; one string per path would take twice the memory
};

/// Returns true for the folder names of splits: train, val, valid, validation, test.
bool IsSplitFolder(absl::string_view name);
/// Returns true for a file in a split folder. `names`: the names of a path, the file's last.
bool IsInSplitFolder(const std::vector<absl::string_view>& names);

/// Opens and lists folders and archives.
absl::StatusOr<std::shared_ptr<const FileTree>> OpenFileTree(const std::vector<TreeSource>& sources,
                                                             const std::string& spool_folder,
                                                             bool any_depth = false);

}  // namespace mtrun::datasets
