#include "trainers/run/files/run_folder.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/run/files/aborted_saves.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

using checkpoints::kLedgerFile;

constexpr char kMetrics[] = "metrics.jsonl";

/// Syncs the records before a checkpoint, so that no power cut keeps the checkpoint but loses them.
absl::Status SyncRecords(const std::string& folder) {
  for (const char* name : {kLedgerFile, kMetrics})
    MT_RETURN_IF_ERROR(SyncFile(absl::StrCat(folder, "/", name)));
  return SyncFolder(folder);
}

}  // namespace

RunFolder::RunFolder(const CheckpointWriter::Options& checkpoints, MetricsLog metrics,
                     checkpoints::Ledger ledger)
    : metrics_(std::move(metrics)),
      ledger_(std::move(ledger)),
      next_step_(std::min(metrics_.next_step(), ledger_.next_step())),
      writer_(checkpoints) {}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const Options& options,
                                                           const checkpoints::LedgerBegin& begin) {
  CheckpointWriter::Options checkpoints = options.checkpoints;
  const std::string& path = checkpoints.path;
  MT_RETURN_IF_ERROR(CheckRunFolder(path));
  const std::string config = path + "/config.yaml";
  MT_RETURN_IF_ERROR(WriteFileAtomically(config, options.settings));
  if (!options.environment.empty())
    MT_RETURN_IF_ERROR(WriteFileAtomically(path + "/environment.json", options.environment));
  MT_ASSIGN_OR_RETURN(checkpoints::Ledger ledger,
                      checkpoints::Ledger::Open(path + "/" + kLedgerFile, options.ledger));
  const checkpoints::LedgerContinuation how =
      checkpoints::ContinueLedger(ledger.end(), begin, checkpoints.generation);
  // The metrics of another branch are rewound as far back as this branch's can be written again.
  const int64_t kept = how.rewinds ? how.appended_from : begin.steps;
  MT_ASSIGN_OR_RETURN(MetricsLog metrics, MetricsLog::Continue(path + "/" + kMetrics, kept));
  MT_RETURN_IF_ERROR(ledger.Begin(begin, checkpoints.generation));
  RemoveAbortedSaves(path);
  checkpoints.first = [path] { return SyncRecords(path); };
  std::unique_ptr<RunFolder> folder(new RunFolder(checkpoints, std::move(metrics), std::move(ledger)));
  if (options.tensorboard) MT_RETURN_IF_ERROR(folder->OpenBoard(options));
  return folder;
}

/// Opens the curves. They are only for viewing, so an error does not stop the run; a full disk is waited for.
absl::Status RunFolder::OpenBoard(const Options& options) {
  absl::StatusOr<TensorboardLog> board = TensorboardLog::Open(options.checkpoints.path, metrics_.next_step());
  if (MayTakeBytesLater(board.status())) return board.status();
  if (!board.ok()) {
    log::Warning("cannot write curves for TensorBoard: ", std::string(board.status().message()));
    return absl::OkStatus();
  }
  tensorboard_.emplace(*std::move(board));
  tensorboard_->AddSettings(metrics_.next_step(), options.settings);  // settings at this step are rewound too
  for (const EvalRecord& record : options.evaluations) {
    if (record.steps < metrics_.next_step()) continue;
    tensorboard_->Add(record);
    if (record == options.evaluations.back()) tensorboard_->AddMatrix(record.steps, options.matrix);
  }
  return absl::OkStatus();
}

absl::Status RunFolder::FlushBoard() {
  if (!tensorboard_) return absl::OkStatus();
  absl::Status flushed = tensorboard_->Flush();
  if (flushed.ok() || MayTakeBytesLater(flushed)) return flushed;
  log::Warning("cannot write more curves for TensorBoard: ", std::string(flushed.message()));
  tensorboard_.reset();
  return absl::OkStatus();
}

absl::Status RunFolder::Record(const FinishedStep& step, const checkpoints::LedgerStep& line, TimePoint now) {
  const StepRecord& record = step.record;
  absl::Status written;
  if (record.step >= ledger_.next_step()) written = ledger_.Append(line);
  written.Update(RecordSaved());
  next_step_ = record.step + 1;
  if (record.step < metrics_.next_step()) return written;
  if (tensorboard_) tensorboard_->Add(step, now);
  // Curves first, so that they are complete up to the end of the metrics, where the next writer continues.
  if (metrics_.WillFlush(now)) written.Update(FlushBoard());
  written.Update(metrics_.Write(record, now));
  return written;
}

absl::Status RunFolder::Flush() {
  absl::Status written = ledger_.Flush();
  if (ledger_.IsSuperseded()) {  // after the next writer's lines they would rewind valid ones
    metrics_.Drop();
    if (tensorboard_) tensorboard_->Drop();
    return written;
  }
  written.Update(FlushBoard());
  written.Update(metrics_.Flush());
  return written;
}

absl::Status RunFolder::RecordSaved() {
  absl::Status written;
  for (const CheckpointWriter::Saved& saved : writer_.TakeSaved()) {
    if (!saved.weights.empty()) written.Update(ledger_.AppendCheckpoint(saved.steps, saved.weights));
  }
  return written;
}

absl::Status RunFolder::Record(const EvalRecord& record, const ConfusionMatrix& matrix) {
  if (tensorboard_) {
    tensorboard_->Add(record);
    tensorboard_->AddMatrix(record.steps, matrix);
  }
  return Record(record);
}

void RunFolder::AddPicture(std::string_view tag, int64_t step, std::string_view png) {
  if (tensorboard_) tensorboard_->AddPicture(tag, step, png);
}

absl::Status CheckRunFolder(const std::string& path) {
  MT_RETURN_IF_ERROR(Annotate(CheckWritable(path), "--model_folder"));
  // If the folder is new, it must survive a power cut as its checkpoints do.
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return SyncFolder(absolute.parent_path().string());
}

}  // namespace mtrun::trainers
