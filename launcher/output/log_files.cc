#include "launcher/output/log_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/posix.h"
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
  const std::string date = absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone());
  return absl::StrCat(state_folder, "/", run_id, "-", date, "-", RandomName());
}

/// "20261124-101500" of a folder that RunFolder has named, "" for another one.
std::string DateOf(const std::string& name) {
  static const std::regex named(".+-(\\d{8}-\\d{6})-[0-9a-f]{8}");
  std::smatch found;
  return std::regex_match(name, found, named) ? found[1].str() : "";
}

/// Unless a run that goes on holds it.
void RemoveRun(const std::string& folder) {
  std::error_code error;
  absl::StatusOr<UniqueFd> lock = TryLockFolder(folder);
  if (!lock.ok()) return;
  std::filesystem::remove_all(folder, error);
  lock->Reset();
  if (error) std::filesystem::remove_all(folder, error);  // NFS keeps a file that is open under another name
}

}  // namespace

absl::StatusOr<LogFiles> LogFiles::Make(const std::string& log_dir, const std::string& run_id,
                                        const std::string& state_folder) {
  LogFiles files;
  if (log_dir == "/dev/null") return files;
  if (log_dir.empty() && !state_folder.empty() && MakeFolders(state_folder).ok()) {
    files.folder_ = RunFolder(state_folder, AsFileName(run_id));
    if (mkdir(files.folder_.c_str(), 0700) == 0) {
      files.lock_ = std::make_shared<UniqueFd>(TryLockFolder(files.folder_).value_or(UniqueFd()));
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
  // There may be room later, and a node that begins meanwhile is worth more than its logs.
  if (!status.ok()) log::Warning(status.message(), ": what has no room is lost");
  return files;
}

/// Several mtruns may do so at once.
void LogFiles::RemoveOldRuns() const {
  if (runs_.empty()) return;
  std::vector<std::pair<std::string, std::string>> runs;  // date, folder
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(runs_, error)) {
    const std::string date = DateOf(entry.path().filename());
    if (!date.empty() && entry.is_directory(error)) runs.emplace_back(date, entry.path());
  }
  std::sort(runs.rbegin(), runs.rend());
  for (size_t i = kMostRuns; i < runs.size(); ++i) RemoveRun(runs[i].second);
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
