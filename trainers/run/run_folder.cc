#include "trainers/run/run_folder.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/run/aborted_saves.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

using checkpoints::kLedgerFile;

constexpr char kMetrics[] = "metrics.jsonl";

/// A checkpoint must not survive a power cut that the records of the steps before it do not.
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
  // The metrics of another branch are taken back as far as those of this one can be written again.
  const int64_t kept = how.rewinds ? how.appended_from : begin.steps;
  MT_ASSIGN_OR_RETURN(MetricsLog metrics, MetricsLog::Continue(path + "/" + kMetrics, kept));
  MT_RETURN_IF_ERROR(ledger.Begin(begin, checkpoints.generation));
  RemoveAbortedSaves(path);
  checkpoints.first = [path] { return SyncRecords(path); };
  std::unique_ptr<RunFolder> folder(new RunFolder(checkpoints, std::move(metrics), std::move(ledger)));
  if (options.tensorboard) MT_RETURN_IF_ERROR(folder->OpenBoard(options));
  return folder;
}

/// Curves are for looking at: what keeps them from being written stops no run, but for a full disk, which is
/// waited for.
absl::Status RunFolder::OpenBoard(const Options& options) {
  absl::StatusOr<Board> board = Board::Open(options.checkpoints.path, metrics_.next_step());
  if (MayTakeBytesLater(board.status())) return board.status();
  if (!board.ok()) {
    log::Warning("no curves for TensorBoard are written: ", std::string(board.status().message()));
    return absl::OkStatus();
  }
  board_.emplace(*std::move(board));
  board_->AddSettings(metrics_.next_step(), options.settings);  // those at this step are taken back, too
  for (const EvalRecord& record : options.evaluations) {
    if (record.steps < metrics_.next_step()) continue;
    board_->Add(record);
    if (record == options.evaluations.back()) board_->AddMatrix(record.steps, options.matrix);
  }
  return absl::OkStatus();
}

absl::Status RunFolder::FlushBoard() {
  if (!board_) return absl::OkStatus();
  absl::Status flushed = board_->Flush();
  if (flushed.ok() || MayTakeBytesLater(flushed)) return flushed;
  log::Warning("no more curves for TensorBoard are written: ", std::string(flushed.message()));
  board_.reset();
  return absl::OkStatus();
}

absl::Status RunFolder::Record(const FinishedStep& step, const checkpoints::LedgerStep& line, TimePoint now) {
  const StepRecord& record = step.record;
  absl::Status written;
  if (record.step >= ledger_.next_step()) written = ledger_.Append(line);
  written.Update(RecordSaved());
  next_step_ = record.step + 1;
  if (record.step < metrics_.next_step()) return written;
  if (board_) board_->Add(step, now);
  // Curves first: whoever goes on where the metrics end finds them complete until there.
  if (metrics_.WillFlush(now)) written.Update(FlushBoard());
  written.Update(metrics_.Write(record, now));
  return written;
}

absl::Status RunFolder::Flush() {
  absl::Status written = ledger_.Flush();
  if (ledger_.IsSuperseded()) {  // behind the next writer's lines they would take back what counts
    metrics_.Drop();
    if (board_) board_->Drop();
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
  if (board_) {
    board_->Add(record);
    board_->AddMatrix(record.steps, matrix);
  }
  absl::Status written = FlushBoard();
  written.Update(metrics_.Write(record));
  return written;
}

absl::Status RunFolder::Record(const GenerationRecord& record) {
  absl::Status written = FlushBoard();
  written.Update(metrics_.Write(record));
  return written;
}

absl::Status RunFolder::Record(const WorkersRecord& record) { return metrics_.Write(record); }

void RunFolder::AddPicture(std::string_view tag, int64_t step, std::string_view png) {
  if (board_) board_->AddPicture(tag, step, png);
}

absl::Status RunFolder::Record(const RegroupRecord& record) {
  absl::Status written = FlushBoard();
  written.Update(metrics_.Write(record));
  return written;
}

absl::Status RunFolder::Record(const DataWaitRecord& record) { return metrics_.Write(record); }

absl::Status RunFolder::Record(const SaveRecord& record) { return metrics_.Write(record); }

absl::Status CheckRunFolder(const std::string& path) {
  MT_RETURN_IF_ERROR(Annotate(CheckWritable(path), "--model_folder"));
  // A folder that was just made must outlive a power cut as its checkpoints do.
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return SyncFolder(absolute.parent_path().string());
}

}  // namespace mtrun::trainers
