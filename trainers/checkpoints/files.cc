#include "trainers/checkpoints/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::checkpoints {
namespace {

namespace fs = std::filesystem;

class RealNewFile : public NewFile {
 public:
  RealNewFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Write(absl::Span<const uint8_t> bytes) override {
    if (bytes.empty()) return 0;
    while (true) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written > 0) return static_cast<size_t>(written);
      if (written == 0) return absl::DataLossError(absl::StrCat("write ", path_, ": no byte was written"));
      if (errno != EINTR) return ErrnoStatus(errno, "write " + path_);
    }
  }

  absl::Status Sync() override {
    return fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "sync " + path_);
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
};

class OperatingSystem : public Files {
 public:
  absl::Status MakeFolder(const std::string& path) override { return MakeFolders(path); }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) override {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd.valid()) return ErrnoStatus(errno, "create " + path);
    return std::make_unique<RealNewFile>(path, std::move(fd));
  }

  absl::Status SyncFolder(const std::string& path) override { return mtrun::SyncFolder(path); }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
      return absl::OkStatus();
    // If the file system has no rename flags (NFS), rename() itself refuses a non-empty folder as its target.
    if (errno == EINVAL && !Exists(to) && rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    const int error = errno == ENOTEMPTY || errno == EINVAL ? EEXIST : errno;
    return ErrnoStatus(error, absl::StrCat("rename ", from, " to ", to));
  }

  absl::Status Exchange(const std::string& one, const std::string& other) override {
    if (renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
      return absl::OkStatus();
    const std::string what = absl::StrCat("exchange ", one, " and ", other);
    if (errno == EINVAL || errno == ENOSYS) return absl::UnimplementedError(what);  // NFS
    return ErrnoStatus(errno, what);
  }

  absl::Status Remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    return error ? ErrnoStatus(error.value(), "remove " + path) : absl::OkStatus();
  }

  absl::StatusOr<std::string> Read(const std::string& path) override { return ReadFile(path); }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    absl::StatusOr<std::vector<std::string>> names = ListNames(folder);
    if (absl::IsNotFound(names.status())) names.emplace();
    return names;
  }

  bool Exists(const std::string& path) override {
    struct stat about = {};
    return lstat(path.c_str(), &about) == 0;
  }

  absl::StatusOr<int64_t> FreeBytes(const std::string& folder) override { return FreeDiskBytes(folder); }
};

}  // namespace

Files& RealFiles() {
  static OperatingSystem files;
  return files;
}

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::Status WriteWhole(Files& files, const std::string& path,
                        const std::vector<absl::Span<const uint8_t>>& pieces) {
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, files.Create(path));
  for (absl::Span<const uint8_t> rest : pieces) {
    while (!rest.empty()) {
      MT_ASSIGN_OR_RETURN(const size_t written, file->Write(rest));
      rest.remove_prefix(written);
    }
  }
  return file->Sync();
}

}  // namespace mtrun::checkpoints
