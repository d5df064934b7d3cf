#include "launcher/output/worker_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

UniqueFd OpenToAppend(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

size_t SizeOf(const UniqueFd& fd) {
  struct stat info = {};
  fstat(fd.get(), &info);
  return static_cast<size_t>(info.st_size);
}

}  // namespace

absl::StatusOr<WorkerLog> WorkerLog::Open(const std::string& path, size_t most_bytes) {
  WorkerLog log;
  log.fd_ = OpenToAppend(path);
  if (!log.fd_.valid()) return ErrnoStatus(errno, absl::StrCat("open log file ", path));
  log.path_ = path;
  log.most_bytes_ = std::min(most_bytes, SizeLimit());
  if (most_bytes > 0) log.bytes_ = SizeOf(log.fd_);
  return log;
}

absl::Status WorkerLog::MakeRoom() {
  if (most_bytes_ == 0 || bytes_ < most_bytes_ / 2) return absl::OkStatus();
  const std::string aside = absl::StrCat(path_.substr(0, path_.rfind('.')), ".1.log");
  // If the file is missing it was removed, or could not be reopened the last time.
  if (rename(path_.c_str(), aside.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "put it aside");
  UniqueFd fresh = OpenToAppend(path_);
  if (!fresh.valid()) return ErrnoStatus(errno, "open it again");
  fd_ = std::move(fresh);
  bytes_ = 0;
  return absl::OkStatus();
}

absl::Status WorkerLog::Write(std::string_view bytes) {
  if (!fd_.valid() || bytes.empty()) return absl::OkStatus();
  absl::Status written = MakeRoom();
  if (written.ok()) written = WriteAll(fd_.get(), bytes);
  bytes_ += bytes.size();
  // Bytes that were not written must not count towards the limit.
  if (!written.ok()) bytes_ = SizeOf(fd_);
  return written;
}

}  // namespace mtrun::launcher
