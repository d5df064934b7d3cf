#include "trainers/run/files/aborted_saves.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/splitmix.h"
#include "base/string_view.h"
#include "trainers/checkpoints/checkpoint.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

/// Returns the place in hexadecimal. If a part cannot be read, the other parts still distinguish places.
std::string Place() {
  std::error_code ignored;
  const std::string start = ReadFile("/proc/sys/kernel/random/boot_id").value_or("");
  const std::string ids = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  return absl::StrCat(absl::Hex(Fnv1a(absl::StrCat(HostName(), "\n", start, "\n", ids))));
}

/// Returns the time since the last change of `folder` or its contents; zero if that cannot be read.
Duration IdleTime(const fs::path& folder) {
  std::error_code error;
  fs::file_time_type newest = fs::last_write_time(folder, error);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    newest = std::max(newest, fs::last_write_time(entry->path(), error));
  if (error) return Duration::zero();
  return std::chrono::duration_cast<Duration>(fs::file_time_type::clock::now() - newest);
}

}  // namespace

std::string SaverName(uint64_t generation) { return absl::StrCat(generation, ".", Place(), ".", getpid()); }

bool IsSaverGone(std::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(View(name), '.');
  int pid = 0;
  if (parts.size() < 3 || parts[parts.size() - 2] != Place() || !absl::SimpleAtoi(parts.back(), &pid) ||
      pid <= 0)
    return false;
  return kill(pid, 0) != 0 && errno == ESRCH;
}

bool IsAborted(bool gone, Duration idle) { return gone || idle >= kSaverIsIdle; }

void RemoveAbortedSaves(const std::string& path) {
  const auto aborted = [&path](const std::string& name) {
    return IsAborted(IsSaverGone(name), IdleTime(fs::path(path) / name));
  };
  const absl::Status removed = checkpoints::RemovePartialFolders(checkpoints::RealFiles(), path, aborted);
  if (!removed.ok()) log::Warning(std::string(removed.message()));
}

}  // namespace mtrun::trainers
