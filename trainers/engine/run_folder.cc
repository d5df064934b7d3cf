#include "trainers/engine/run_folder.h"

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/manifest.h"

namespace mtrun::engine {
namespace {

namespace fs = std::filesystem;
using checkpoints::Saver;

constexpr char kLedger[] = "ledger.jsonl";
constexpr char kMetrics[] = "metrics.jsonl";

bool IsOfARun(const std::string& name) {
  static constexpr const char* kNames[] = {kLedger, kMetrics, "config.yaml", "report.txt", "report.json"};
  for (const char* known : kNames) {
    if (name == known) return true;
  }
  return checkpoints::ParseStepFolder(name) || checkpoints::IsPartialFolder(name) ||
         (absl::StartsWith(name, "model") && absl::EndsWith(name, ".safetensors"));
}

std::string FreeName(const std::string& path) {
  std::error_code error;
  for (int n = 1;; ++n) {
    const std::string name = absl::StrCat(path, "/previous_", n);
    if (!fs::exists(name, error)) return name;
  }
}

/// A checkpoint must not survive a power cut that the records of the steps before it do not.
absl::Status SyncRecords(const std::string& folder) {
  for (const char* name : {kLedger, kMetrics}) MT_RETURN_IF_ERROR(SyncFile(absl::StrCat(folder, "/", name)));
  return SyncFolder(folder);
}

}  // namespace

struct RunFolder::Told {
  explicit Told(Duration the_grace) : grace(the_grace) {}
  const Duration grace;
  std::mutex mutex;
  bool failed_last = false;  // this and the next: guarded by mutex
  bool said_too_slow = false;

  void Hear(const Saver::Result& result) {
    const std::lock_guard lock(mutex);
    if (!result.status.ok()) {
      log::Warning("the checkpoint of step ", result.step,
                   " could not be saved, training goes on: ", std::string(result.status.message()));
    } else if (failed_last) {
      log::Info("the checkpoint of step ", result.step, " is saved; saving works again");
    }
    failed_last = !result.status.ok();
    const bool too_slow = grace > Duration::zero() && FromSeconds(result.seconds) > grace;
    if (too_slow && !std::exchange(said_too_slow, true)) {
      log::Warning(
          "saving a checkpoint took ", HumanDuration(FromSeconds(result.seconds)),
          ", and after SIGTERM there are only ", HumanDuration(grace),
          " until SIGKILL: give mtrun a longer --shutdown_timeout, or what was trained since the last "
          "checkpoint is lost when the job is stopped");
    }
  }
};

RunFolder::RunFolder(Options options, MetricsLog metrics, checkpoints::Ledger ledger, uint64_t generation)
    : options_(std::move(options)),
      metrics_(std::move(metrics)),
      ledger_(std::move(ledger)),
      next_step_(std::min(metrics_.next_step(), ledger_.next_step())),
      told_(std::make_shared<Told>(options_.grace)),
      saver_(
          std::make_unique<Saver>(checkpoints::RealFiles(),
                                  Saver::Rules{.root = options_.path,
                                               .unique = absl::StrCat(generation, ".", getpid()),
                                               .keep_last = options_.keep_checkpoints,
                                               .first = [path = options_.path] { return SyncRecords(path); }},
                                  [told = told_](const Saver::Result& result) { told->Hear(result); })) {}

RunFolder::~RunFolder() = default;

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const Options& options, int64_t step,
                                                           uint64_t generation) {
  MT_RETURN_IF_ERROR(CheckRunFolder(options.path));
  MT_RETURN_IF_ERROR(WriteFileAtomically(options.path + "/config.yaml", options.settings));
  MT_ASSIGN_OR_RETURN(MetricsLog metrics, MetricsLog::Continue(options.path + "/" + kMetrics, step));
  MT_ASSIGN_OR_RETURN(checkpoints::Ledger ledger,
                      checkpoints::Ledger::Open(options.path + "/" + kLedger, options.ledger));
  if (ledger.next_step() > step) MT_RETURN_IF_ERROR(ledger.Rewind(step, generation));
  // What a killed save left is of no use to anybody, and nobody else writes here.
  const absl::Status removed = checkpoints::RemovePartialFolders(checkpoints::RealFiles(), options.path);
  if (!removed.ok()) log::Warning(std::string(removed.message()));
  return std::unique_ptr<RunFolder>(
      new RunFolder(options, std::move(metrics), std::move(ledger), generation));
}

absl::Status RunFolder::Record(const StepRecord& record, const checkpoints::LedgerStep& step, TimePoint now) {
  if (record.step >= ledger_.next_step()) MT_RETURN_IF_ERROR(ledger_.Append(step));
  next_step_ = record.step + 1;
  if (record.step < metrics_.next_step()) return absl::OkStatus();
  return metrics_.Write(record, now);
}

absl::Status RunFolder::Record(const EvalRecord& record) { return metrics_.Write(record); }

absl::Status RunFolder::Record(const RegroupRecord& record) { return metrics_.Write(record); }

absl::Status RunFolder::Record(const SaveRecord& record) { return metrics_.Write(record); }

void RunFolder::Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best) {
  saver_->Submit(std::move(snapshot), best);
}

absl::Status RunFolder::WaitForSaves() { return saver_->Wait(); }

absl::Status CheckRunFolder(const std::string& path) {
  const absl::Status status = CheckWritable(path);
  if (!status.ok()) return Annotate(status, absl::StrCat("--model_folder ", path, " cannot be written"));
  // A folder that was just made must outlive a power cut as its checkpoints do.
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return SyncFolder(absolute.parent_path().string());
}

absl::Status MoveAside(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (IsOfARun(entry->path().filename().string())) names.push_back(entry->path().filename().string());
  }
  if (names.empty()) return absl::OkStatus();
  const std::string aside = FreeName(path);
  MT_RETURN_IF_ERROR(MakeFolders(aside));
  for (const std::string& name : names) {
    fs::rename(path + "/" + name, aside + "/" + name, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("move ", path, "/", name, " to ", aside));
  }
  log::Info("what an earlier run left in ", path, " is in ", aside, " now");
  return absl::OkStatus();
}

}  // namespace mtrun::engine
