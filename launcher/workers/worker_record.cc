#include "launcher/workers/worker_record.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "base/error_file.h"
#include "launcher/output/failure_message.h"

namespace mtrun::launcher {

std::string FailureMessage(const WorkerFiles& files, const std::string& tail, bool handled) {
  std::string lines = tail.empty() ? "" : absl::StrCat(kTailHeading, "\n", tail);
  if (files.error.empty() || (handled && !lines.empty())) return lines;
  const absl::StatusOr<ErrorRecord> record = ReadErrorFile(files.error);
  if (absl::IsNotFound(record.status())) return lines;
  if (!record.ok()) return absl::StrCat(lines, "\n(", record.status().message(), ")");
  return record->callstack.empty() ? record->message : absl::StrCat(record->message, "\n", record->callstack);
}

std::optional<int64_t> RecordedAt(const WorkerFiles& files) {
  struct stat info;
  if (files.error.empty() || stat(files.error.c_str(), &info) != 0 || info.st_size == 0) return std::nullopt;
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace mtrun::launcher
