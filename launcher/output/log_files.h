// Where the files of a run lie: <log_dir>/<run id>_<random>/attempt_<restart count>/<local
// rank>/{stdout.log,stderr.log,error.json}. A generation that begins without a failure (a node joined or was
// lost) has attempt_<restart count>.g<generation>. Nothing is deleted but the oldest runs of those that
// nobody gave a folder for. Each node has a run folder of its own; those of one run id that begin within
// kOneRun are one run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/posix.h"

namespace mtrun::launcher {

struct WorkerFiles {
  std::string out, err, error;             // "" when there are none
  std::string filtered_out, filtered_err;  // of the whole attempt
};

class LogFiles {
 public:
  static constexpr size_t kMostRuns = 20;
  /// All runs without --rdzv_id have the same id, but not at the same time.
  static constexpr absl::Duration kOneRun = absl::Hours(1);
  /// Locks may hold on one machine only, or not at all (NFS, Lustre): what has begun or been written to more
  /// recently is somebody's.
  static constexpr absl::Duration kInUse = absl::Hours(24);

  /// Proves that the folder can be written, before anything starts; a full disk is no more than a warning.
  /// `log_dir` "/dev/null" means no files at all. "" makes <state folder>/<run id>-<date>-<random>; or a
  /// temporary one where the state folder is "" or cannot be written.
  static absl::StatusOr<LogFiles> Make(const std::string& log_dir, const std::string& run_id,
                                       const std::string& state_folder = "");

  /// Of the folders that "" has made it keeps the newest kMostRuns runs, and those that may be in use:
  /// locked, or younger than kInUse. It may take as long as their files are many: for a thread of its own, so
  /// that no start waits for it. What it has not come to when it is told to stop is left to the next run.
  void RemoveOldRuns(const std::stop_token& stop = {}) const;

  /// The run's own folder, "" for none.
  const std::string& folder() const { return folder_; }
  /// Makes the worker's folder. Where a worker of the same generation had it before, logs are appended to and
  /// its error file is put aside.
  absl::StatusOr<WorkerFiles> ForWorker(int restart_count, int64_t generation, int local_rank);

 private:
  std::string AttemptFolder(int restart_count, int64_t generation);

  std::string folder_;
  std::string runs_;                         // where ours are, if this one is there
  std::shared_ptr<UniqueFd> lock_;           // of a folder of ours, for as long as the run goes on
  std::map<int, int64_t> first_generation_;  // of each attempt
};

}  // namespace mtrun::launcher
