// Where the files of a run lie: <log_dir>/<run id>_<random>/attempt_<restart count>/<local
// rank>/{stdout.log,stderr.log,error.json}.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct WorkerFiles {
  std::string out, err, error;  // "" when there are none
};

class LogFiles {
 public:
  /// Proves that the folder can be written, before anything starts. `log_dir` "" makes a temporary folder,
  /// "/dev/null" means no files at all.
  static absl::StatusOr<LogFiles> Make(const std::string& log_dir, const std::string& run_id);

  /// The run's own folder, "" for none.
  const std::string& folder() const { return folder_; }
  /// Makes the worker's folder and removes an error file of an earlier worker; logs of an attempt that goes
  /// on stay.
  absl::StatusOr<WorkerFiles> ForWorker(int restart_count, int local_rank) const;

 private:
  std::string folder_;
};

}  // namespace mtrun::launcher
