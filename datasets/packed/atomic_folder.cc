#include "datasets/packed/atomic_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/folder_names.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datasets/packed/set_files.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRoomToLeave = 16 << 20;  // for headers, the index and file system metadata

/// Returns the absolute path without a trailing slash, so that parent and name are never empty.
absl::StatusOr<std::string> Normalised(const std::string& path) {
  std::error_code error;
  std::string text = fs::absolute(path, error).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  if (error || path.empty() || text == "/") {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" cannot be created: give the name of a new folder"));
  }
  return text;
}

absl::Status CheckReplaceable(const std::string& destination, bool replace) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(destination, error);
  if (status.type() == fs::file_type::not_found) return absl::OkStatus();
  if (!replace) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " exists; choose another destination, or replace it with --force"));
  }
  if (!fs::is_directory(status))
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " is not a folder, so --force does not replace it; move it away first"));
  return fs::is_empty(destination, error) ? absl::OkStatus() : CheckHoldsASetAlone(destination);
}

void MentionLeftOvers(const fs::path& parent, const std::string& prefix, const std::string& own = "") {
  for (const std::string& name : NamesIn(parent.string())) {
    if (!absl::StartsWith(name, prefix) || parent / name == own) continue;
    log::Warning("left by an import that is running or was killed: ", (parent / name).string());
  }
}

}  // namespace

absl::StatusOr<AtomicFolder> AtomicFolder::Create(const std::string& destination, bool replace) {
  MT_ASSIGN_OR_RETURN(const std::string target, Normalised(destination));
  MT_RETURN_IF_ERROR(CheckReplaceable(target, replace));
  const fs::path parent = fs::path(target).parent_path();
  MT_RETURN_IF_ERROR(MakeFolders(parent.string()));
  const std::string prefix = absl::StrCat(".", fs::path(target).filename().string(), ".partial-");
  MentionLeftOvers(parent, prefix);
  std::string path = (parent / absl::StrCat(prefix, "XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "create a folder in " + parent.string());
  AtomicFolder folder(target, path, replace);
  // mkdtemp makes it private; the data set gets the mode of any new folder.
  const mode_t mask = umask(0);
  umask(mask);
  if (chmod(path.c_str(), 0777 & ~mask) != 0) return ErrnoStatus(errno, "set the mode of " + path);
  return folder;
}

absl::StatusOr<AtomicFolder> AtomicFolder::Resume(const std::string& destination, bool replace,
                                                  const std::string& key) {
  MT_ASSIGN_OR_RETURN(const std::string target, Normalised(destination));
  MT_RETURN_IF_ERROR(CheckReplaceable(target, replace));
  const fs::path parent = fs::path(target).parent_path();
  const std::string prefix = absl::StrCat(".", fs::path(target).filename().string(), ".partial-");
  const std::string path = (parent / absl::StrCat(prefix, key)).string();
  MT_RETURN_IF_ERROR(MakeFolders(parent.string()));
  MentionLeftOvers(parent, prefix, path);
  for (;;) {
    // Check again: the process that held the lock may have published the set.
    MT_RETURN_IF_ERROR(CheckReplaceable(target, replace));
    MT_RETURN_IF_ERROR(MakeFolders(path));
    absl::StatusOr<UniqueFd> lock = TryLockFolder(path);
    if (absl::IsUnavailable(lock.status())) {
      log::Info("another import is already creating ", target,
                " from the same source: waiting for it to end");
      lock = LockFolder(path);
    }
    if (absl::IsNotFound(lock.status())) continue;
    MT_RETURN_IF_ERROR(lock.status());
    // The process that held the lock may have published this folder: then `path` is another folder now.
    if (IsFileAt(absl::StrCat(path, "/", kFolderLockFile), lock->get()))
      return AtomicFolder(target, path, replace, *std::move(lock));
  }
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : destination_(std::move(other.destination_)),
      path_(std::exchange(other.path_, "")),
      replace_(other.replace_),
      lock_(std::move(other.lock_)) {}

AtomicFolder::~AtomicFolder() {
  std::error_code error;
  if (!path_.empty() && !lock_.valid()) fs::remove_all(path_, error);
  if (error) log::Warning("cannot remove ", path_, ": ", error.message());
}

absl::Status AtomicFolder::CheckRoom(int64_t bytes) const {
  const int64_t needed = bytes + kRoomToLeave;
  MT_ASSIGN_OR_RETURN(const int64_t there, FreeDiskBytes(path_));
  if (there >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the data set needs ", needed >> 20, " MiB, but the disk of ", path_, " has ", there >> 20,
                   " MiB free; free some space or choose another destination"));
}

absl::Status AtomicFolder::Publish() {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) MT_RETURN_IF_ERROR(SyncFolder(entry->path().string()));
  }
  if (error) return ErrnoStatus(error.value(), "list " + path_);
  MT_RETURN_IF_ERROR(SyncFolder(path_));
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, destination_.c_str(), RENAME_NOREPLACE) == 0) {
    path_.clear();
  } else if (errno == EINVAL || (errno == EEXIST && replace_)) {
    MT_RETURN_IF_ERROR(CheckReplaceable(destination_, replace_));  // again: it may contain more by now
    MT_RETURN_IF_ERROR(Replace());
  } else if (errno == EEXIST) {
    const std::string kept = lock_.valid() ? absl::StrCat("; the complete import is in ", path_) : "";
    return absl::AlreadyExistsError(
        absl::StrCat(destination_, " was created by another process during the import", kept));
  } else {
    return ErrnoStatus(errno, "rename to " + destination_);
  }
  // Only now: a process that locked it before the rename would have locked the new data set.
  if (lock_.valid()) unlink(absl::StrCat(destination_, "/", kFolderLockFile).c_str());
  lock_.Reset();  // path_ is now an old data set or nothing: remove it
  return SyncFolder(fs::path(destination_).parent_path().string());
}

absl::Status AtomicFolder::Replace() {
  if (replace_ && renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, destination_.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();  // path_ is the old one now: the destructor removes it
  }
  // The file system has no rename flags (NFS): move the old one aside for a moment.
  const std::string aside = path_ + ".old";
  const bool had_old = replace_ && rename(destination_.c_str(), aside.c_str()) == 0;
  if (rename(path_.c_str(), destination_.c_str()) != 0) {
    const int error_number = errno;
    if (had_old) rename(aside.c_str(), destination_.c_str());
    return ErrnoStatus(error_number, "rename to " + destination_);
  }
  path_ = had_old ? aside : "";
  return absl::OkStatus();
}

}  // namespace mtrun::datasets
