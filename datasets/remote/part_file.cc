#include "datasets/remote/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"

namespace mtrun::datasets {
namespace {

/// Opens the file at `part`, created if missing, and locks it exclusively.
absl::StatusOr<UniqueFd> OpenAlone(const std::string& part) {
  for (const bool again : {false, true}) {
    UniqueFd fd(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", part));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    // A writer's lock is exclusive. Other locks may be of readers, which hold a shard while they run: they
    // keep the damaged file, and a new one gets its name.
    const bool is_read = flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
    if (again || !is_read || !IsFileAt(part, fd.get())) break;
    if (unlink(part.c_str()) != 0 && errno != ENOENT)
      return ErrnoStatus(errno, absl::StrCat("remove ", part));
  }
  return absl::UnavailableError(absl::StrCat("another process is writing ", part));
}

}  // namespace

PartFile::PartFile(std::string path, const ShardEntry& entry, UniqueFd fd)
    : path_(std::move(path)),
      part_(absl::StrCat(path_, ".part.", HostName())),
      entry_(entry),
      fd_(std::move(fd)) {}

absl::StatusOr<PartFile> PartFile::Open(const std::string& path, const ShardEntry& entry) {
  MT_RETURN_IF_ERROR(MakeFolders(path.substr(0, path.rfind('/'))));
  const std::string part = absl::StrCat(path, ".part.", HostName());
  MT_ASSIGN_OR_RETURN(UniqueFd fd, OpenAlone(part));
  PartFile file(path, entry, std::move(fd));
  MT_RETURN_IF_ERROR(file.ReadAgain());
  return file;
}

absl::Status PartFile::ReadAgain() {
  std::string piece(1 << 20, '\0');
  while (true) {
    const ssize_t read = pread(fd_.get(), piece.data(), piece.size(), size_);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return ErrnoStatus(errno, absl::StrCat("read ", part_));
    if (read == 0) return absl::OkStatus();
    resumed_ = true;
    size_ += read;
    if (size_ > entry_.bytes) return Restart();
    sum_->Update(std::string_view(piece).substr(0, static_cast<size_t>(read)));
  }
}

absl::Status PartFile::Append(std::string_view bytes) {
  if (size_ + static_cast<int64_t>(bytes.size()) > entry_.bytes)
    return absl::DataLossError(
        absl::StrCat(path_, ": the server sent more than the ", entry_.bytes, " bytes in the index"));
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", part_));
    sum_->Update(bytes.substr(0, static_cast<size_t>(written)));
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status PartFile::Restart() {
  if (ftruncate(fd_.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", part_));
  size_ = 0;
  resumed_ = false;
  sum_ = std::make_unique<Sha256>();
  return absl::OkStatus();
}

absl::Status PartFile::Finish() {
  if (size_ != entry_.bytes)
    return absl::DataLossError(
        absl::StrCat(path_, " has ", size_, " bytes, but the index says ", entry_.bytes));
  if (sum_->Hex() != entry_.sha256) {
    MT_RETURN_IF_ERROR(Restart());
    return absl::DataLossError(
        absl::StrCat(path_, ": the received data does not have the SHA-256 in the index"));
  }
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", part_));
  // The received bytes are right; check that the disk has the same ones. Mark before reading, so that a later
  // write removes the mark.
  MT_RETURN_IF_ERROR(MarkVerified(part_, entry_));
  MT_ASSIGN_OR_RETURN(const std::string here, Sha256OfFile(part_));
  if (here != entry_.sha256) {
    MT_RETURN_IF_ERROR(Restart());
    return absl::AbortedError(absl::StrCat(part_, " was modified by another process while it was received"));
  }
  fd_.Reset();
  return Place();
}

/// Moves the file into place, but keeps a verified file from another machine's fetcher: its readers hold
/// locks on it, which would be useless if this file took its name.
absl::Status PartFile::Place() {
  const bool linked = link(part_.c_str(), path_.c_str()) == 0;
  if (linked || IsVerified(path_, entry_)) {
    if (unlink(part_.c_str()) != 0 && errno != ENOENT)
      return ErrnoStatus(errno, absl::StrCat("remove ", part_));
  } else if (rename(part_.c_str(), path_.c_str()) != 0) {  // over a damaged one, or links are not supported
    return ErrnoStatus(errno, absl::StrCat("rename ", part_));
  }
  return SyncFolder(path_.substr(0, path_.rfind('/')));
}

}  // namespace mtrun::datasets
