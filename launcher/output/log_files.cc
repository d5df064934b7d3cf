#include "launcher/output/log_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/folder_names.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

std::string AsFileName(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; },
      '_');
  if (name.empty() || name[0] == '.') name = absl::StrCat("_", name);
  return name.substr(0, 100);
}

std::string RandomName() { return absl::StrFormat("%08x", RandomBits() & 0xFFFFFFFF); }

std::string RunFolder(const std::string& state_folder, const std::string& run_id) {
  const std::string date = absl::FormatTime("%E4Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone());
  return absl::StrCat(state_folder, "/", run_id, "-", date, "-", RandomName());
}

/// One node's part of an earlier run.
struct OldFolder {
  absl::Time begun;
  std::string run_id, path;
};

/// Parses a folder name; nullopt unless RunFolder has made it.
std::optional<OldFolder> ReadName(const std::filesystem::path& path) {
  static const std::regex named("(.+)-(\\d{8}-\\d{6})-[0-9a-f]{8}");
  const std::string name = path.filename();
  std::smatch found;
  OldFolder folder{.begun = {}, .run_id = {}, .path = path};
  if (!std::regex_match(name, found, named)) return std::nullopt;
  if (!absl::ParseTime("%E4Y%m%d-%H%M%S", found[2].str(), absl::LocalTimeZone(), &folder.begun, nullptr))
    return std::nullopt;
  folder.run_id = found[1];
  return folder;
}

/// Returns the run folders, newest first. Skips links: the user has made them to keep logs elsewhere.
std::vector<OldFolder> ListFolders(const std::string& runs) {
  std::vector<OldFolder> folders;
  for (const std::string& name : NamesIn(runs)) {
    std::error_code none;
    std::optional<OldFolder> folder = ReadName(std::filesystem::path(runs) / name);
    const bool is_folder =
        folder && std::filesystem::is_directory(std::filesystem::symlink_status(folder->path, none));
    if (is_folder) folders.push_back(*std::move(folder));
  }
  std::sort(folders.begin(), folders.end(),
            [](const OldFolder& a, const OldFolder& b) { return a.begun > b.begun; });
  return folders;
}

/// Calls `see` with each file below the folder until it returns false. Returns false if it cannot be read.
bool SeeFiles(const std::string& folder,
              const std::function<bool(const std::filesystem::directory_entry&)>& see) {
  std::error_code error, none;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_folder = std::filesystem::is_directory(entry->symlink_status(none));
    if (!is_folder && !see(*entry)) return true;
  }
  return !error;
}

/// Returns true also if unknown. Ignores the lock file, which processes that only test the lock create too.
bool WrittenSince(const std::string& folder, absl::Time since, const std::stop_token& stop) {
  bool written = false;
  const bool seen = SeeFiles(folder, [&](const std::filesystem::directory_entry& file) {
    struct stat status = {};
    if (file.path().filename() != kFolderLockFile)
      written = lstat(file.path().c_str(), &status) != 0 || absl::TimeFromTimespec(status.st_mtim) > since;
    return !written && !stop.stop_requested();
  });
  return written || !seen;
}

/// Removes the folder unless it may be in use.
void RemoveFolder(const OldFolder& folder, const std::stop_token& stop) {
  const absl::Time since = absl::Now() - LogFiles::kInUse;
  if (folder.begun > since || WrittenSince(folder.path, since, stop)) return;
  absl::StatusOr<UniqueFd> lock = TryLockFolder(folder.path);
  if (!lock.ok()) return;
  std::error_code error;
  // One by one, so that `stop` is checked between files; there may be very many.
  SeeFiles(folder.path, [&](const std::filesystem::directory_entry& file) {
    if (!stop.stop_requested()) std::filesystem::remove(file.path(), error);
    return !stop.stop_requested();
  });
  if (stop.stop_requested()) return;
  std::filesystem::remove_all(folder.path, error);
  lock->Reset();
  // NFS keeps an open file under another name.
  if (error) std::filesystem::remove_all(folder.path, error);
}

/// Locks this run's folder. Other machines may not see the lock.
UniqueFd LockOwn(const std::string& folder) {
  absl::StatusOr<UniqueFd> lock = TryLockFolder(folder);
  if (lock.ok()) return *std::move(lock);
  log::Warning(lock.status().message(), ": other runs of yours may remove its logs when nothing has been ",
               "written to them for ", absl::FormatDuration(LogFiles::kInUse));
  return UniqueFd();
}

}  // namespace

absl::StatusOr<LogFiles> LogFiles::Make(const std::string& log_dir, const std::string& run_id,
                                        const std::string& state_folder) {
  LogFiles files;
  if (log_dir == "/dev/null") return files;
  if (log_dir.empty() && !state_folder.empty() && MakeFolders(state_folder).ok()) {
    files.folder_ = RunFolder(state_folder, AsFileName(run_id));
    if (mkdir(files.folder_.c_str(), 0700) == 0) {
      files.lock_ = std::make_shared<UniqueFd>(LockOwn(files.folder_));
      files.runs_ = state_folder;
      return files;
    }
  }
  std::string base = log_dir;
  if (base.empty()) {
    MT_ASSIGN_OR_RETURN(base, MakeTemporaryFolder("mtrun_"));
  }
  files.folder_ = absl::StrCat(base, "/", AsFileName(run_id), "_", RandomName());
  const absl::Status status = Annotate(CheckWritable(files.folder_), "--log_dir");
  if (!absl::IsResourceExhausted(status)) MT_RETURN_IF_ERROR(status);
  // There may be free space later, and a node that starts now is worth more than its logs.
  if (!status.ok()) log::Warning(status.message(), ": output that does not fit is lost");
  return files;
}

/// Several mtruns may do this at once.
void LogFiles::RemoveOldRuns(const std::stop_token& stop) const {
  if (runs_.empty()) return;
  struct Run {
    absl::Time begun;
    size_t number = 0;  // 1: the newest
  };
  size_t count = 0;
  std::map<std::string, Run> runs;  // by run id: the one counted last
  for (const OldFolder& folder : ListFolders(runs_)) {
    Run& run = runs[folder.run_id];
    if (run.number == 0 || run.begun - folder.begun > kOneRun) run = {folder.begun, ++count};
    if (stop.stop_requested()) return;
    if (run.number > kMaxRuns) RemoveFolder(folder, stop);
  }
}

std::string LogFiles::AttemptFolder(int restart_count, int64_t generation) {
  const int64_t first = first_generation_.try_emplace(restart_count, generation).first->second;
  const std::string attempt = absl::StrCat(folder_, "/attempt_", restart_count);
  return generation == first ? attempt : absl::StrCat(attempt, ".g", generation);
}

absl::StatusOr<WorkerFiles> LogFiles::ForWorker(int restart_count, int64_t generation, int local_rank) {
  if (folder_.empty()) return WorkerFiles{};
  const std::string attempt = AttemptFolder(restart_count, generation);
  const std::string folder = absl::StrCat(attempt, "/", local_rank);
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  WorkerFiles files{folder + "/stdout.log", folder + "/stderr.log", folder + "/error.json",
                    attempt + "/filtered_stdout.log", attempt + "/filtered_stderr.log"};
  for (int earlier = 1; access(files.error.c_str(), F_OK) == 0; ++earlier) {
    const std::string aside = absl::StrCat(folder, "/error.", earlier, ".json");
    if (access(aside.c_str(), F_OK) == 0) continue;
    if (rename(files.error.c_str(), aside.c_str()) != 0)
      return ErrnoStatus(errno, absl::StrCat("rename ", files.error));
  }
  return files;
}

}  // namespace mtrun::launcher
