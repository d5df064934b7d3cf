// The files that a run leaves (docs/formats.md, "Run folders"): settings, metrics, ledger, checkpoints. One
// member of a job keeps them; when that one is gone another goes on in the same folder, or starts its own
// where folders are not shared. Training thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/saver.h"
#include "trainers/engine/metrics_log.h"

namespace mtrun::engine {

class RunFolder {
 public:
  struct Options {
    std::string path;
    std::string settings;  // config.yaml
    checkpoints::LedgerHead ledger;
    int keep_checkpoints = 3;
    Duration grace =
        Duration::zero();  // from a polite signal to SIGKILL, zero: unknown; a save must fit into it
  };

  /// Continues the folder's files at `step` finished steps: what they say beyond is taken back, in words.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(const Options& options, int64_t step,
                                                         uint64_t generation);
  ~RunFolder();

  /// Steps that the files account for; a new keeper records those that its predecessor could not.
  int64_t next_step() const { return next_step_; }
  absl::Status Record(const StepRecord& record, const checkpoints::LedgerStep& ledger, TimePoint now);
  absl::Status Record(const EvalRecord& record);
  absl::Status Record(const RegroupRecord& record);
  absl::Status Record(const SaveRecord& record);
  /// What is still in memory goes to the file: another member may be the keeper next.
  absl::Status Flush() { return metrics_.Flush(); }

  /// Hands a checkpoint to the thread that writes them. `best`: the step to keep whatever its age.
  void Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best);
  /// Waits for the disk; the last save's status.
  absl::Status WaitForSaves();

 private:
  RunFolder(Options options, MetricsLog metrics, checkpoints::Ledger ledger, uint64_t generation);
  struct Told;  // by the saver's thread

  const Options options_;
  MetricsLog metrics_;
  checkpoints::Ledger ledger_;
  int64_t next_step_ = 0;
  std::shared_ptr<Told> told_;
  std::unique_ptr<checkpoints::Saver> saver_;
};

/// Everything that could fail at the first save fails here.
absl::Status CheckRunFolder(const std::string& path);
/// Moves what an earlier run left (metrics, ledger, checkpoints, report, weights) into `previous_N`, so that
/// a new run starts with a folder of its own and nothing is lost. Says so in the log.
absl::Status MoveAside(const std::string& path);

}  // namespace mtrun::engine
