// The operating system's files and descriptors, with owning types and errors as absl::Status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun {

/// Converts errno to a Status. The action and its object are in `what`: "open /data/index.json".
absl::Status ErrnoStatus(int error_number, std::string_view what);
/// Returns whether a failed write may succeed later: the disk is full (kResourceExhausted) or has become
/// read-only.
bool MayTakeBytesLater(const absl::Status& status);

/// Owns one file descriptor and closes it on destruction. Movable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

/// Reads from `fd` until its end or up to `most` bytes. Errors name `path`.
absl::StatusOr<std::string> ReadUpTo(int fd, const std::string& path, size_t most);
/// Reads a whole file. Errors name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);
/// Returns at most the first `most` bytes of a file that other programs write. kInvalidArgument if it is not
/// an ordinary file, because a named pipe would block its reader.
absl::StatusOr<std::string> ReadFileStart(const std::string& path, size_t most);
/// Writes beside the target, fsyncs file and folder, renames: readers see the old or the new text, never a
/// part.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);
/// Flushes a file's contents, or a folder's entries, to the disk.
absl::Status SyncFile(const std::string& path);
absl::Status SyncFolder(const std::string& path);
/// The file in a folder that is locked to hold the folder. Over NFS, locks on files work between machines,
/// locks on folders do not.
inline constexpr const char* kFolderLockFile = ".lock";
/// Blocks until no other process holds the folder, then holds it until the descriptor is closed (flock on its
/// kFolderLockFile, which is created and kept; the lock ends if its holder dies).
absl::StatusOr<UniqueFd> LockFolder(const std::string& path);
/// Like LockFolder, but returns kUnavailable if another process holds the folder.
absl::StatusOr<UniqueFd> TryLockFolder(const std::string& path);
/// Returns whether the open file is still the one at `path`, neither removed nor replaced.
bool IsFileAt(const std::string& path, int fd);
/// Writes all bytes to a descriptor, across short writes and EINTR.
absl::Status WriteAll(int fd, std::string_view bytes);
/// Like WriteAll, but removes what was written from the front of `bytes`, so that the rest can follow later.
absl::Status WriteFront(int fd, std::string& bytes);
/// Makes the folder and its parents; succeeds if it already exists.
absl::Status MakeFolders(const std::string& path);
/// Checks that `folder`, made if missing, is writable by creating and removing a file in it.
absl::Status CheckWritable(const std::string& folder);
/// Makes a new private (0700) folder `<TMPDIR or /tmp>/<prefix>XXXXXX`.
absl::StatusOr<std::string> MakeTemporaryFolder(std::string_view prefix);
/// Returns the free bytes for this user on the file system that holds `path`.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path);
/// Returns the words as exec(3) takes them, with a null pointer at the end; valid as long as `words` is.
std::vector<char*> ExecWords(const std::vector<std::string>& words);
/// Returns this machine's host name ("node2"), or "localhost" if the kernel gives none.
std::string HostName();
/// Returns the folder of the running executable, with symbolic links resolved.
absl::StatusOr<std::string> ExecutableFolder();
/// Returns 64 random bits from the kernel, for identities and secrets; never called inside a pure core.
uint64_t RandomBits();

}  // namespace mtrun
