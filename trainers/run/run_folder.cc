#include "trainers/run/run_folder.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"

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

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const Options& options, int64_t step) {
  CheckpointWriter::Options checkpoints = options.checkpoints;
  const std::string& path = checkpoints.path;
  MT_RETURN_IF_ERROR(CheckRunFolder(path));
  MT_RETURN_IF_ERROR(WriteFileAtomically(path + "/config.yaml", options.settings));
  MT_ASSIGN_OR_RETURN(MetricsLog metrics, MetricsLog::Continue(path + "/" + kMetrics, step));
  MT_ASSIGN_OR_RETURN(checkpoints::Ledger ledger,
                      checkpoints::Ledger::Open(path + "/" + kLedgerFile, options.ledger));
  if (ledger.next_step() > step) MT_RETURN_IF_ERROR(ledger.Rewind(step, checkpoints.generation));
  RemoveAbortedSaves(path);
  checkpoints.first = [path] { return SyncRecords(path); };
  return std::unique_ptr<RunFolder>(new RunFolder(checkpoints, std::move(metrics), std::move(ledger)));
}

absl::Status RunFolder::Record(const StepRecord& record, const checkpoints::LedgerStep& step, TimePoint now) {
  absl::Status written;
  if (record.step >= ledger_.next_step()) written = ledger_.Append(step);
  written.Update(RecordSaved());
  next_step_ = record.step + 1;
  if (record.step >= metrics_.next_step()) written.Update(metrics_.Write(record, now));
  return written;
}

absl::Status RunFolder::Flush() {
  absl::Status written = ledger_.Flush();
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

absl::Status RunFolder::Record(const EvalRecord& record) { return metrics_.Write(record); }

absl::Status RunFolder::Record(const RegroupRecord& record) { return metrics_.Write(record); }
absl::Status RunFolder::Record(const DataWaitRecord& record) { return metrics_.Write(record); }

absl::Status RunFolder::Record(const SaveRecord& record) { return metrics_.Write(record); }

void RemoveAbortedSaves(const std::string& path) {
  const absl::Status removed = checkpoints::RemovePartialFolders(checkpoints::RealFiles(), path);
  if (!removed.ok()) log::Warning(std::string(removed.message()));
}

absl::Status CheckRunFolder(const std::string& path) {
  const absl::Status status = CheckWritable(path);
  if (!status.ok()) return Annotate(status, absl::StrCat("--model_folder ", path, " cannot be written"));
  // A folder that was just made must outlive a power cut as its checkpoints do.
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return SyncFolder(absolute.parent_path().string());
}

}  // namespace mtrun::trainers
