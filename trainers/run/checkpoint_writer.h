// Saves checkpoints into one folder, on a thread of its own, and reports when that goes wrong or takes
// longer than the grace that a polite signal gives. Training thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/checkpoints/saver.h"

namespace mtrun::trainers {

class CheckpointWriter {
 public:
  struct Options {
    std::string path;         // the run folder
    uint64_t generation = 0;  // in which it is opened
    int keep_last = 3;
    Duration grace = Duration::zero();              // from a polite signal to SIGKILL, zero: unknown
    double last_seconds = 0;                        // what the run's last save took, 0: not known yet
    std::function<absl::Status()> first = nullptr;  // as Saver::Rules has it
  };
  /// A run whose last save took longer than the grace is reported here, before its first step.
  explicit CheckpointWriter(const Options& options);
  /// Finishes what was submitted.
  ~CheckpointWriter();

  /// Hands a checkpoint over. `best`: the step to keep whatever its age.
  void Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best);
  /// Saves that worked since the last call, oldest first.
  struct Saved {
    int64_t steps = 0;
    std::string weights;  // SHA-256 of their file
  };
  std::vector<Saved> TakeSaved();
  /// Waits for the disk; the last save's status.
  absl::Status Wait();
  /// Of the last save that worked; what the options said before one has.
  double last_seconds() const;

 private:
  class Listener;  // on the saver's thread

  std::shared_ptr<Listener> listener_;
  checkpoints::Saver saver_;
};

}  // namespace mtrun::trainers
