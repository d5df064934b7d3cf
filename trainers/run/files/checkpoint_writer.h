// Saves checkpoints into one folder on its own thread. Logs a warning if a save fails, or if it takes longer
// than the grace period after a polite signal. Training thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "trainers/checkpoints/saver.h"

namespace mtrun::trainers {

class CheckpointWriter {
 public:
  struct Options {
    std::string path;         // the run folder
    uint64_t generation = 0;  // when the writer is opened
    int keep_last = 3;
    Duration grace = Duration::zero();              // from a polite signal to SIGKILL; zero: unknown
    double last_seconds = 0;                        // duration of the run's last save; 0: unknown
    std::function<absl::Status()> first = nullptr;  // as in Saver::Rules
  };
  /// Logs a warning, before the first step, if the run's last save took longer than the grace period.
  explicit CheckpointWriter(const Options& options);

  /// Submits a checkpoint. `best`: the step whose checkpoint is kept regardless of its age. The destructor
  /// finishes the saves that were submitted.
  void Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best) {
    saver_.Submit(std::move(snapshot), best);
  }
  /// A successful save. TakeSaved returns those since its last call, oldest first.
  struct Saved {
    int64_t steps = 0;
    std::string weights;  // SHA-256 of the weights file
  };
  std::vector<Saved> TakeSaved();
  /// Waits for the disk; returns the last save's status.
  absl::Status Wait() { return saver_.Wait(); }
  /// Returns the duration of the last successful save; before the first one, Options::last_seconds.
  double last_seconds() const;

 private:
  /// Called on the saver's thread after each save.
  void Hear(const checkpoints::Saver::Result& result);
  void WarnIfTooSlow(const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Duration grace_;
  mutable Mutex mutex_;
  bool said_no_links_ ABSL_GUARDED_BY(mutex_) = false;
  double last_seconds_ ABSL_GUARDED_BY(mutex_);
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Saved> saved_ ABSL_GUARDED_BY(mutex_);
  bool said_too_slow_ ABSL_GUARDED_BY(mutex_) = false;
  checkpoints::Saver saver_;  // last: its thread uses everything above
};

}  // namespace mtrun::trainers
