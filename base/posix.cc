#include "base/posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun {
namespace {

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status SyncOpened(const std::string& path, int flags) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", path));
  return absl::OkStatus();
}

constexpr char kReadOnly[] = "mtrun/read-only";  // tells EROFS from other refusals

/// Writes bytes; the unwritten rest stays in `bytes`.
absl::Status WriteRest(int fd, std::string_view* bytes) {
  while (!bytes->empty()) {
    const ssize_t n = write(fd, bytes->data(), bytes->size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write");
    bytes->remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

/// Replaces what is at `path`; a link there, which another user may have put, is not followed.
absl::Status WriteNewFile(const std::string& path, std::string_view contents) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, absl::StrCat("replace ", path));
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create ", path));
  MT_RETURN_IF_ERROR(Annotate(WriteAll(fd.get(), contents), path));
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", path));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> LockFileOf(const std::string& folder, int how) {
  const std::string path = absl::StrCat(folder, "/", kFolderLockFile);
  // NFS only locks files that are open for writing.
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  while (flock(fd.get(), how) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock ", path));
  }
  return fd;
}

}  // namespace

bool MayTakeBytesLater(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || status.GetPayload(kReadOnly).has_value();
}

absl::Status ErrnoStatus(int error_number, std::string_view what) {
  const std::string text = absl::StrCat(View(what), ": ", std::generic_category().message(error_number));
  switch (error_number) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EEXIST:
    case EADDRINUSE:
      return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EROFS: {
      absl::Status read_only = absl::PermissionDeniedError(text);
      read_only.SetPayload(kReadOnly, absl::Cord());
      return read_only;
    }
    case EFBIG:
      return AtSizeLimit(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

void UniqueFd::Reset() {
  if (fd_ >= 0) close(Release());
}

absl::StatusOr<std::string> ReadUpTo(int fd, const std::string& path, size_t most) {
  std::string contents;
  std::array<char, 1 << 16> piece;
  while (contents.size() < most) {
    const ssize_t n = read(fd, piece.data(), std::min(piece.size(), most - contents.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (n == 0) break;
    contents.append(piece.data(), static_cast<size_t>(n));
  }
  return contents;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return ReadUpTo(fd.get(), path, std::numeric_limits<size_t>::max());
}

absl::StatusOr<std::string> ReadFileStart(const std::string& path, size_t most) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat about = {};
  if (fstat(fd.get(), &about) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(about.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, " is not an ordinary file"));
  return ReadUpTo(fd.get(), path, most);
}

absl::Status SyncFile(const std::string& path) { return SyncOpened(path, 0); }

absl::Status SyncFolder(const std::string& path) { return SyncOpened(path, O_DIRECTORY); }

absl::StatusOr<UniqueFd> LockFolder(const std::string& path) { return LockFileOf(path, LOCK_EX); }

absl::StatusOr<UniqueFd> TryLockFolder(const std::string& path) {
  return LockFileOf(path, LOCK_EX | LOCK_NB);
}

bool IsFileAt(const std::string& path, int fd) {
  struct stat of_path = {}, of_fd = {};
  return stat(path.c_str(), &of_path) == 0 && fstat(fd, &of_fd) == 0 && of_path.st_dev == of_fd.st_dev &&
         of_path.st_ino == of_fd.st_ino;
}

absl::Status WriteAll(int fd, std::string_view bytes) { return WriteRest(fd, &bytes); }

absl::Status WriteFront(int fd, std::string& bytes) {
  std::string_view rest = bytes;
  const absl::Status written = WriteRest(fd, &rest);
  bytes.erase(0, bytes.size() - rest.size());
  return written;
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  static std::atomic<uint64_t> count = 0;  // several threads may write one path at a time
  const std::string beside = absl::StrCat(path, ".", getpid(), "-", count++, ".new");
  if (absl::Status written = WriteNewFile(beside, contents); !written.ok()) {
    unlink(beside.c_str());
    return written;
  }
  if (rename(beside.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    unlink(beside.c_str());
    return ErrnoStatus(error_number, absl::StrCat("rename to ", path));
  }
  return SyncFolder(ParentOf(path));
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("create folder ", path));
  if (!std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a file, not a folder"));
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& folder) {
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string probe = absl::StrCat(folder, "/.writable-", getpid());
  // Writes one byte: a full disk can still create empty files.
  absl::Status written = WriteNewFile(probe, "x");
  unlink(probe.c_str());
  return Annotate(written, absl::StrCat("folder ", folder, " cannot be written"));
}

absl::StatusOr<std::string> MakeTemporaryFolder(std::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string pattern =
      absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/", View(prefix), "XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("create folder ", pattern));
  return pattern;
}

absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0)
    return ErrnoStatus(errno, absl::StrCat("read the free space of ", path));
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

std::vector<char*> ExecWords(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

absl::StatusOr<std::string> ExecutableFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return ErrnoStatus(error.value(), "read /proc/self/exe");
  return self.parent_path().string();
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  MT_CHECK(getrandom(&bits, sizeof bits, 0) == sizeof bits);
  return bits;
}

}  // namespace mtrun
