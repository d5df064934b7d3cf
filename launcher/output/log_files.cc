#include "launcher/output/log_files.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

}  // namespace

absl::StatusOr<LogFiles> LogFiles::Make(const std::string& log_dir, const std::string& run_id) {
  LogFiles files;
  if (log_dir == "/dev/null") return files;
  std::string base = log_dir;
  if (base.empty()) {
    MT_ASSIGN_OR_RETURN(base, MakeTemporaryFolder("mtrun_"));
  }
  files.folder_ =
      absl::StrCat(base, "/", AsFileName(run_id), "_", absl::StrFormat("%08x", RandomBits() & 0xFFFFFFFF));
  const absl::Status status = Annotate(CheckWritable(files.folder_), "--log_dir");
  if (!absl::IsResourceExhausted(status)) MT_RETURN_IF_ERROR(status);
  // There may be room later, and a node that begins meanwhile is worth more than its logs.
  if (!status.ok()) log::Warning(status.message(), ": what has no room is lost");
  return files;
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
