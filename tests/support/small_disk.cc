#include "tests/support/small_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::support {

absl::StatusOr<std::unique_ptr<SmallDisk>> SmallDisk::Make(const std::string& path, int64_t bytes) {
  MT_RETURN_IF_ERROR(MakeFolders(path));
  if (unshare(CLONE_NEWNS) != 0) return ErrnoStatus(errno, "mounting is not allowed here");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return ErrnoStatus(errno, "mounting is not allowed here");
  const std::string size = absl::StrCat("size=", bytes);
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, size.c_str()) != 0)
    return ErrnoStatus(errno, "mounting is not allowed here");
  return std::unique_ptr<SmallDisk>(new SmallDisk(path));
}

SmallDisk::~SmallDisk() { umount2(path_.c_str(), MNT_DETACH); }

void SmallDisk::Fill() const {
  const UniqueFd file(open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  MT_CHECK(file.valid()) << path_;
  const std::string block(4096, 'x');
  while (write(file.get(), block.data(), block.size()) > 0) {
  }
  MT_CHECK(errno == ENOSPC) << errno;
}

void SmallDisk::Leave(int64_t bytes) const {
  const absl::StatusOr<int64_t> free = FreeDiskBytes(path_);
  MT_CHECK(free.ok() && *free > bytes) << path_;
  const UniqueFd file(open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  MT_CHECK(posix_fallocate(file.get(), 0, *free - bytes) == 0) << path_;
}

void SmallDisk::Free() const { unlink((path_ + "/filler").c_str()); }

}  // namespace mtrun::support
