#include "datasets/file_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/tar_reader.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFile = int64_t{256} << 20;
constexpr int kMaxDepth = 3;  // <split>/<class>/<image>

class FolderTree : public FileTree {
 public:
  explicit FolderTree(std::string root) : root_(std::move(root)) {}

  absl::Status List() {
    std::error_code error;
    std::vector<std::string> tops;
    for (fs::directory_iterator entry(root_, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      const std::string name = entry->path().filename().string();
      if (entry->is_directory(ignored) && IsSplitFolder(name)) tops.push_back(name);
    }
    if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", root_));
    if (tops.empty()) return Collect("", 1);
    for (const std::string& top : tops) MT_RETURN_IF_ERROR(Collect(top + "/", 2));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Read(size_t i) const override {
    const SourceFile& file = files_[i];
    if (file.bytes > kMaxFile) return absl::InvalidArgumentError("larger than 256 MiB");
    auto bytes = ReadFile(absl::StrCat(root_, "/", file.path));
    // A pipe has no size.
    if (bytes.ok() && file.bytes > 0 && static_cast<int64_t>(bytes->size()) != file.bytes)
      return absl::DataLossError("changed while it was imported");
    return bytes;
  }

 private:
  /// Lists what lies in `prefix` ("" or "a/b/"), whose entries are `depth` names deep; a folder below
  /// kMaxDepth is listed as a path, for ListTree to refuse.
  absl::Status Collect(const std::string& prefix, int depth) {
    std::error_code error;
    for (fs::directory_iterator entry(fs::path(root_) / prefix, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name[0] == '.') continue;
      struct stat about = {};
      const bool there = stat(entry->path().c_str(), &about) == 0;
      if (there && S_ISDIR(about.st_mode) && depth < kMaxDepth) {
        MT_RETURN_IF_ERROR(Collect(absl::StrCat(prefix, name, "/"), depth + 1));
        continue;
      }
      files_.push_back({.path = absl::StrCat(prefix, name, there && S_ISDIR(about.st_mode) ? "/" : ""),
                        .bytes = about.st_size,
                        .modified = about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec});
    }
    return error ? ErrnoStatus(error.value(), absl::StrCat("list ", root_, "/", prefix)) : absl::OkStatus();
  }

  const std::string root_;
};

/// A file that has a descriptor and no name.
absl::StatusOr<UniqueFd> NamelessFile(const std::string& folder) {
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  std::string path = absl::StrCat(folder, "/.mtdata-spool-XXXXXX");
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("make a file in ", folder));
  unlink(path.c_str());
  return fd;
}

class ArchiveTree : public FileTree {
 public:
  explicit ArchiveTree(std::string path) : path_(std::move(path)) {}

  absl::Status List(const std::string& spool_folder) {
    MT_ASSIGN_OR_RETURN(spool_, NamelessFile(spool_folder));
    struct stat about = {};
    stat(path_.c_str(), &about);
    MT_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(path_));
    for (;;) {
      MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
      if (!more) return absl::OkStatus();
      files_.push_back({.path = reader.name(),
                        .bytes = 0,
                        .modified = about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec});
      offsets_.push_back(end_);
      if (!reader.is_file()) {
        files_.back().is_link = true;
        continue;
      }
      MT_ASSIGN_OR_RETURN(const std::string bytes, reader.Read(kMaxFile));
      MT_RETURN_IF_ERROR(Annotate(WriteAll(spool_.get(), bytes), "unpack " + path_));
      files_.back().bytes = static_cast<int64_t>(bytes.size());
      end_ += files_.back().bytes;
    }
  }

  absl::StatusOr<std::string> Read(size_t i) const override {
    if (files_[i].is_link)
      return absl::InvalidArgumentError("a link in an archive; unpack it and import the folder");
    std::string bytes(static_cast<size_t>(files_[i].bytes), '\0');
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = pread(spool_.get(), bytes.data() + done, bytes.size() - done,
                              offsets_[i] + static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "read what was unpacked");
      if (n == 0) return absl::DataLossError("what was unpacked has become shorter");
      done += static_cast<size_t>(n);
    }
    return bytes;
  }

 private:
  const std::string path_;
  UniqueFd spool_;
  std::vector<int64_t> offsets_;  // of the files in the spool
  int64_t end_ = 0;
};

}  // namespace

bool IsSplitFolder(absl::string_view name) {
  return name == "train" || name == "test" || name == "val" || name == "valid" || name == "validation";
}

absl::StatusOr<std::unique_ptr<FileTree>> OpenFileTree(const std::string& source,
                                                       const std::string& spool_folder) {
  std::error_code error;
  if (fs::is_directory(source, error)) {
    auto folder = std::make_unique<FolderTree>(source);
    MT_RETURN_IF_ERROR(folder->List());
    return folder;
  }
  auto archive = std::make_unique<ArchiveTree>(source);
  MT_RETURN_IF_ERROR(archive->List(spool_folder));
  return archive;
}

}  // namespace mtrun::datasets
