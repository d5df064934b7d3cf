// Where the files of a run lie: <log_dir>/<run id>_<random>/attempt_<restart count>/<local
// rank>/{stdout.log,stderr.log,error.json}. A generation that begins without a failure (a node joined or was
// lost) has attempt_<restart count>.g<generation>. Nothing is ever deleted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct WorkerFiles {
  std::string out, err, error;             // "" when there are none
  std::string filtered_out, filtered_err;  // of the whole attempt
};

class LogFiles {
 public:
  /// Proves that the folder can be written, before anything starts; a full disk is no more than a warning.
  /// `log_dir` "" makes a temporary folder, "/dev/null" means no files at all.
  static absl::StatusOr<LogFiles> Make(const std::string& log_dir, const std::string& run_id);

  /// The run's own folder, "" for none.
  const std::string& folder() const { return folder_; }
  /// Makes the worker's folder. Where a worker of the same generation had it before, logs are appended to and
  /// its error file is put aside.
  absl::StatusOr<WorkerFiles> ForWorker(int restart_count, int64_t generation, int local_rank);

 private:
  std::string AttemptFolder(int restart_count, int64_t generation);

  std::string folder_;
  std::map<int, int64_t> first_generation_;  // of each attempt
};

}  // namespace mtrun::launcher
