// The operating system's files and descriptors with owners in the type and errors as absl::Status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun {

/// The one place where errno becomes a Status. `what` names the act and its object: "open /data/index.json".
absl::Status ErrnoStatus(int error_number, std::string_view what);
/// Whether the disk takes no bytes now but may later: it is full (kResourceExhausted), or it has become read-only.
bool MayTakeBytesLater(const absl::Status& status);

/// Owns one file descriptor. Movable, closes on destruction.
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

/// What comes from `fd`, until it ends or `most` bytes are there. Errors name `path`.
absl::StatusOr<std::string> ReadUpTo(int fd, const std::string& path, size_t most);
/// Reads a whole file. Errors name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);
/// The first `most` bytes of a file that others write, or all of a shorter one. kInvalidArgument for what is
/// not an ordinary file: a named pipe would keep its reader waiting.
absl::StatusOr<std::string> ReadFileStart(const std::string& path, size_t most);
/// Writes beside the target, fsyncs file and folder, renames: readers see the old or the new text, never a
/// part.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);
/// What was written to the file, or which entries the folder has, is on the disk when this returns OK.
absl::Status SyncFile(const std::string& path);
absl::Status SyncFolder(const std::string& path);
/// The file in a folder by which it is held: over NFS the lock of a file holds between machines, that of a
/// folder does not.
inline constexpr const char* kFolderLockFile = ".lock";
/// Waits until nobody else holds the folder, and holds it until the descriptor is closed (flock on its
/// kFolderLockFile, which is made and stays: the death of the holder frees it).
absl::StatusOr<UniqueFd> LockFolder(const std::string& path);
/// The same, but kUnavailable where somebody holds it.
absl::StatusOr<UniqueFd> TryLockFolder(const std::string& path);
/// The open file is the one at `path` still: nobody has removed it, or put another one in its place.
bool IsFileAt(const std::string& path, int fd);
/// Writes all bytes to a descriptor, going on after short writes and EINTR.
absl::Status WriteAll(int fd, std::string_view bytes);
/// The same; what could be written is taken off the front of `bytes`, so that the rest can follow later.
absl::Status WriteFront(int fd, std::string& bytes);
/// Makes the folder and its parents; fine when it exists.
absl::Status MakeFolders(const std::string& path);
/// Proves that files can be made in `folder` by making and removing one; makes the folder when it is not
/// there.
absl::Status CheckWritable(const std::string& folder);
/// A new private (0700) folder `<TMPDIR or /tmp>/<prefix>XXXXXX`.
absl::StatusOr<std::string> MakeTemporaryFolder(std::string_view prefix);
/// Free bytes for this user on the file system that holds `path`.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path);
/// This machine's host name ("node2"), "localhost" when the kernel gives none.
std::string HostName();
/// Folder that holds the running executable, symbolic links resolved.
absl::StatusOr<std::string> ExecutableFolder();
/// 64 random bits of the kernel. For identities and secrets, never inside a pure core.
uint64_t RandomBits();

}  // namespace mtrun
