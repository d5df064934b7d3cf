// The files that a run leaves (docs/formats.md, "Run folders"): settings, metrics, ledger, checkpoints. One
// member of a job writes them; when that one is gone another continues in the same folder, or starts its own
// where folders are not shared. Training thread only.
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
#include "trainers/run/board.h"
#include "trainers/run/checkpoint_writer.h"
#include "trainers/run/finished_step.h"
#include "trainers/run/metrics_log.h"

namespace mtrun::trainers {

class RunFolder {
 public:
  struct Options {
    CheckpointWriter::Options checkpoints;  // names the folder
    std::string settings;                   // config.yaml
    std::string environment;                // environment.json, "": none
    bool tensorboard = false;               // tb/
    // Evaluations of the run so far and the matrix of the last one: its curves lack those that an earlier
    // writer's file is taken back with.
    std::vector<EvalRecord> evaluations;
    ConfusionMatrix matrix{0};
    checkpoints::LedgerHead ledger;
  };
  /// Continues the folder's files at `begin`: what they say beyond, or what another branch of the run did, is
  /// taken back.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(const Options& options,
                                                         const checkpoints::LedgerBegin& begin);

  /// A generation begins at `begin` whose writer has the files open already.
  absl::Status Enter(uint64_t generation, const checkpoints::LedgerBegin& begin) {
    return ledger_.Begin(begin, generation);
  }
  /// Steps that the files account for; a new writer records those that its predecessor could not.
  int64_t next_step() const { return next_step_; }
  /// Whether nobody has continued the files since.
  bool IsLast() const { return ledger_.IsLast(); }
  absl::Status Record(const FinishedStep& step, const checkpoints::LedgerStep& ledger, TimePoint now);
  absl::Status Record(const EvalRecord& record, const ConfusionMatrix& matrix);
  absl::Status Record(const RegroupRecord& record);
  absl::Status Record(const DataWaitRecord& record);
  absl::Status Record(const SaveRecord& record);
  absl::Status Record(const GenerationRecord& record);
  absl::Status Record(const WorkersRecord& record);
  /// For the curves alone: a PNG file.
  void AddPicture(std::string_view tag, int64_t step, std::string_view png);
  /// The ledger learns what weights the checkpoints have that were saved meanwhile; with each step, too.
  absl::Status RecordSaved();
  /// What is still in memory goes to the file: another member may be the writer next.
  absl::Status Flush();

  /// A checkpoint that it writes brings the records of the steps before it to the disk too.
  CheckpointWriter& checkpoints() { return writer_; }

 private:
  RunFolder(const CheckpointWriter::Options& checkpoints, MetricsLog metrics, checkpoints::Ledger ledger);
  absl::Status OpenBoard(const Options& options);
  absl::Status FlushBoard();

  std::optional<Board> board_;
  MetricsLog metrics_;
  checkpoints::Ledger ledger_;
  int64_t next_step_ = 0;
  CheckpointWriter writer_;
};

/// Everything that could fail at the first save fails here.
absl::Status CheckRunFolder(const std::string& path);

}  // namespace mtrun::trainers
