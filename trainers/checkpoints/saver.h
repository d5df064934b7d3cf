// Writes checkpoints in the background while training continues. Thread-safe. A failed save is reported and
// does not stop training. The next successful save clears the error.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "trainers/checkpoints/checkpoint.h"

namespace mtrun::checkpoints {

class Saver {
 public:
  struct Rules {
    std::string root;    // the run folder
    std::string unique;  // makes partial names unique
    int keep_last = 3;   // complete checkpoints, in addition to the best one
    /// Flushes what a checkpoint depends on. Called on the saver's thread before each save, which fails if
    /// this fails.
    std::function<absl::Status()> first = nullptr;
  };
  struct Result {
    int64_t step = 0;
    std::optional<int64_t> best;  // as submitted
    absl::Status status;
    double seconds = 0;
    int64_t bytes = 0;
    std::string weights;  // SHA-256 of the weights file; "" if not known
  };

  /// `told` is called on the saver's thread after each save.
  Saver(Files& files, Rules rules, std::function<void(const Result&)> told);
  /// Finishes the submitted saves.
  ~Saver();

  /// Takes over the snapshot at once. It replaces a snapshot that still waits for an earlier save, unless
  /// that is the best one. A slow disk gets fewer checkpoints instead of a queue, and at most two wait.
  /// `best`: the step to keep at any age.
  void Submit(Snapshot snapshot, std::optional<int64_t> best);
  /// Blocks until everything submitted is on the disk or has failed. Returns the last save's status.
  absl::Status Wait();

 private:
  struct Job {
    Snapshot snapshot;
    std::optional<int64_t> best;
  };
  void Run();
  absl::Status Save(const Job& job, std::string& weights);

  Files& files_;
  const Rules rules_;
  const std::function<void(const Result&)> told_;

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses everything above
};

}  // namespace mtrun::checkpoints
