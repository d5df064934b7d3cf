// The files that a run leaves (docs/formats.md, "Run folders"): settings, metrics, ledger, checkpoints. One
// member of a job writes them. If it fails, another one continues in the same folder, or starts its own if
// folders are not shared. Training thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/run/files/checkpoint_writer.h"
#include "trainers/run/records/finished_step.h"
#include "trainers/run/records/metrics_log.h"
#include "trainers/run/records/tensorboard_log.h"

namespace mtrun::trainers {

class RunFolder {
 public:
  struct Options {
    CheckpointWriter::Options checkpoints;  // names the folder
    std::string settings;                   // config.yaml
    std::string environment;                // environment.json; "": none
    bool tensorboard = false;               // tb/
    // Evaluations of the run so far and the matrix of the last one. The curves get those that the rewind of
    // an earlier writer's file removes.
    std::vector<EvalRecord> evaluations;
    ConfusionMatrix matrix{0};
    checkpoints::LedgerHead ledger;
  };
  /// Continues the folder's files at `begin`. Rewinds lines beyond it, or from another branch of the run.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(const Options& options,
                                                         const checkpoints::LedgerBegin& begin);

  /// Begins a generation at `begin` whose writer already has the files open.
  absl::Status Enter(uint64_t generation, const checkpoints::LedgerBegin& begin) {
    return ledger_.Begin(begin, generation);
  }
  /// Returns the steps that the files contain; a new writer records those that its predecessor could not.
  int64_t next_step() const { return next_step_; }
  /// Returns whether no other process has continued the files.
  bool IsLast() const { return ledger_.IsLast(); }
  absl::Status Record(const FinishedStep& step, const checkpoints::LedgerStep& ledger, TimePoint now);
  absl::Status Record(const EvalRecord& record, const ConfusionMatrix& matrix);
  template <typename Line>
  absl::Status Record(const Line& record) {
    absl::Status written = kWrittenAtOnce<Line> ? FlushBoard() : absl::OkStatus();
    written.Update(metrics_.Write(record));
    return written;
  }
  /// Adds a PNG file to the curves.
  void AddPicture(std::string_view tag, int64_t step, std::string_view png);
  /// Adds the weights of newly saved checkpoints to the ledger. Recording a step does so too.
  absl::Status RecordSaved();
  /// Writes what is still in memory, because another member may be the next writer.
  absl::Status Flush();

  /// Returns the writer of checkpoints. A save also syncs the records of the steps before it to the disk.
  CheckpointWriter& checkpoints() { return writer_; }

 private:
  RunFolder(const CheckpointWriter::Options& checkpoints, MetricsLog metrics, checkpoints::Ledger ledger);
  absl::Status OpenBoard(const Options& options);
  absl::Status FlushBoard();

  std::optional<TensorboardLog> tensorboard_;
  MetricsLog metrics_;
  checkpoints::Ledger ledger_;
  int64_t next_step_ = 0;
  CheckpointWriter writer_;
};

/// Fails if the first save would fail.
absl::Status CheckRunFolder(const std::string& path);

}  // namespace mtrun::trainers
