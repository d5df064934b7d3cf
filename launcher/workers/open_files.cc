#include "launcher/workers/open_files.h"

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {
namespace {

// An mtrun that hosts has 32 open files, and some more while it connects.
constexpr size_t kBesides = 64;
// Standard output and error of a worker; a file for each of them; its connection to the store or the channel.
constexpr size_t kStreams = 2, kLogs = 2, kConnections = 1;

std::string Need(int workers, bool with_logs, size_t limit) {
  return absl::StrCat(workers, " workers need ", FilesOf(workers, with_logs),
                      " open files, but ulimit -n allows ", limit);
}

}  // namespace

size_t FilesOf(int workers, bool with_logs) {
  return kBesides + static_cast<size_t>(workers) * (kStreams + kConnections + (with_logs ? kLogs : 0));
}

absl::Status CheckOpenFiles(int workers, bool with_logs, size_t limit) {
  // Not every program connects.
  if (FilesOf(workers, with_logs) - static_cast<size_t>(workers) * kConnections <= limit)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(Need(workers, with_logs, limit),
                   ": raise its hard limit (ulimit -Hn, LimitNOFILE= of a unit, "
                   "--ulimit nofile= of a container), or start fewer workers",
                   with_logs ? ", or leave --log_dir out" : ""));
}

std::string LogsLeftOut(int workers, size_t limit) {
  return absl::StrCat(Need(workers, true, limit), ": no log files are written (--log_dir insists on them)");
}

}  // namespace mtrun::launcher
