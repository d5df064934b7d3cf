#include "tests/support/sync_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace mtrun::support {
namespace {

Mutex log_mutex;
std::string log_folder ABSL_GUARDED_BY(log_mutex);  // "": no log
std::vector<std::string> synced ABSL_GUARDED_BY(log_mutex);

void Note(int fd) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error).string();
  const MutexLock lock(log_mutex);
  if (error || log_folder.empty()) return;
  if (path == log_folder) synced.emplace_back(".");
  if (path.starts_with(log_folder + "/")) synced.push_back(path.substr(log_folder.size() + 1));
}

}  // namespace

SyncLog::SyncLog(const std::string& folder) {
  const MutexLock lock(log_mutex);
  MT_CHECK(log_folder.empty() && !folder.empty());
  log_folder = std::filesystem::canonical(folder).string();
}

SyncLog::~SyncLog() {
  const MutexLock lock(log_mutex);
  log_folder.clear();
  synced.clear();
}

std::vector<std::string> SyncLog::Take() {
  const MutexLock lock(log_mutex);
  return std::exchange(synced, {});
}

}  // namespace mtrun::support

extern "C" int fsync(int fd) {
  mtrun::support::Note(fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
