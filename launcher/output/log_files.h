// The files of a run: <log_dir>/<run id>_<random>/attempt_<restart count>/<local
// rank>/{stdout.log,stderr.log,error.json}. A generation that begins without a failure (a node joined or was
// lost) has attempt_<restart count>.g<generation>. Only the oldest runs without a given folder are deleted.
// Each node has its own run folder; those of one run id that begin within kOneRun are one run.
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
  std::string out, err, error;             // "" if there are none
  std::string filtered_out, filtered_err;  // shared by the whole attempt
};

class LogFiles {
 public:
  static constexpr size_t kMaxRuns = 20;
  /// All runs without --rdzv_id share one id, but do not start at the same time.
  static constexpr absl::Duration kOneRun = absl::Hours(1);
  /// Locks may work on one machine only, or not at all (NFS, Lustre): newer folders or files count as in use.
  static constexpr absl::Duration kInUse = absl::Hours(24);

  /// Checks that the folder is writable before anything starts; a full disk is only a warning. `log_dir`
  /// "/dev/null" means no files at all. "" makes <state folder>/<run id>-<date>-<random>, or a temporary
  /// folder if the state folder is "" or not writable.
  static absl::StatusOr<LogFiles> Make(const std::string& log_dir, const std::string& run_id,
                                       const std::string& state_folder = "");

  /// Removes old folders that were made for "". It keeps the newest kMaxRuns runs and those that may be in
  /// use: locked, or younger than kInUse. Run it on a thread of its own, because many files take long. If it
  /// is stopped, the next run removes the rest.
  void RemoveOldRuns(const std::stop_token& stop = {}) const;

  /// Folder of this run; "" for none.
  const std::string& folder() const { return folder_; }
  /// Makes the worker's folder. An earlier worker's logs there are continued; its error file is renamed.
  absl::StatusOr<WorkerFiles> ForWorker(int restart_count, int64_t generation, int local_rank);

 private:
  std::string AttemptFolder(int restart_count, int64_t generation);

  std::string folder_;
  std::string runs_;                         // parent of the run folders, if this run is one of them
  std::shared_ptr<UniqueFd> lock_;           // held on the folder for the duration of the run
  std::map<int, int64_t> first_generation_;  // by attempt
};

}  // namespace mtrun::launcher
