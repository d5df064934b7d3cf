#include "trainers/run/files/run_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/writer_mark.h"
#include "trainers/run/files/aborted_saves.h"
#include "trainers/run/files/other_runs.h"

namespace mtrun::trainers {
namespace {

/// A dead writer's metrics lack at most what it had not flushed: one second of steps, or 256 KiB of lines.
constexpr size_t kRecentSteps = 4096;

}  // namespace

CheckpointWriter::Options RunFiles::WriterOptions(const Start& start) const {
  return {.path = options_.path,
          .generation = start.generation,
          .keep_last = options_.keep_last,
          .grace = options_.grace,
          .last_seconds = start.last_save_seconds,
          .first = nullptr};
}

absl::Status RunFiles::Enter(const Place& place, const Start& start,
                             const std::function<absl::Status()>& barrier) {
  if (run_ != start.run) {  // another run replaced it
    folder_.reset();
    copies_.reset();
  }
  run_ = start.run;
  if (place.who.rank == place.writer) {
    if (!ContinuesAt(start)) MT_RETURN_IF_ERROR(WithRoom([&] { return ClearFolder(start); }));
    MT_RETURN_IF_ERROR(BecomeWriter(start));
    MT_RETURN_IF_ERROR(RecordGeneration(place, start));
  } else {
    folder_.reset();
  }
  return place.who.nodes > 1 ? FindRole(place, start, barrier) : absl::OkStatus();
}

absl::Status RunFiles::RecordGeneration(const Place& place, const Start& start) {
  return Keep(folder_->Record(GenerationRecord{.generation = start.generation,
                                               .assigned = place.assigned,
                                               .steps = start.position.steps,
                                               .world = place.who.world_size,
                                               .members = place.who.members,
                                               .why = start.why,
                                               .time = static_cast<double>(WallClockNs()) * 1e-9,
                                               .machines = start.machines}));
}

/// Returns whether the open files end at `start`. A generation in between may have added lines.
bool RunFiles::ContinuesAt(const Start& start) const {
  return folder_ && folder_->next_step() == start.position.steps && folder_->IsLast();
}

checkpoints::LedgerBegin RunFiles::BeginOf(const Start& start) const {
  const int64_t steps = start.position.steps;
  return {.steps = steps,
          .of = steps == 0 ? 0 : start.position.generation,
          .remembered = recent_.empty() ? steps : std::min(steps, recent_.front().record.step),
          .lineage = start.lineage};
}

absl::Status RunFiles::ClearFolder(const Start& start) const {
  return start.fresh ? MoveAside(options_.path) : GiveFolderTo(options_.path, start.run);
}

absl::Status RunFiles::BecomeWriter(const Start& start) {
  if (ContinuesAt(start)) return Keep(folder_->Enter(start.generation, BeginOf(start)));
  folder_.reset();
  copies_.reset();
  MT_RETURN_IF_ERROR(WithRoom([&] { return OpenFolder(start); }));
  for (const FinishedStep& step : recent_) {
    if (step.record.step >= folder_->next_step()) MT_RETURN_IF_ERROR(Write(step, MonotonicNow()));
  }
  return absl::OkStatus();
}

void RunFiles::SaveBeside(const Start& start) {
  folder_.reset();
  copies_ = std::make_unique<CheckpointWriter>(WriterOptions(start));
}

absl::Status RunFiles::OpenFolder(const Start& start) {
  RunFolder::Options options{.checkpoints = WriterOptions(start),
                             .settings = options_.settings,
                             .environment = options_.environment,
                             .tensorboard = options_.tensorboard,
                             .evaluations = start.evaluations,
                             .matrix = ConfusionMatrix(start.confusion),
                             .ledger = options_.ledger};
  options.ledger.run = start.run;
  MT_ASSIGN_OR_RETURN(folder_, RunFolder::Open(options, BeginOf(start)));
  return absl::OkStatus();
}

/// Finds out which nodes have their own folder, by a mark that the writer leaves in its own.
absl::Status RunFiles::FindRole(const Place& place, const Start& start,
                                const std::function<absl::Status()>& barrier) {
  const checkpoints::WriterMark mark{start.run, start.generation};
  if (folder_) {
    MT_RETURN_IF_ERROR(WithRoom([&] { return checkpoints::WriteWriterMark(options_.path, mark); }));
  }
  MT_RETURN_IF_ERROR(barrier());
  const bool sees_mark = checkpoints::HasWriterMark(options_.path, mark);
  if (RoleOf(place.who.rank, place.writer, place.who.first_on_node, sees_mark) != FileRole::kCopies) {
    copies_.reset();
    return absl::OkStatus();
  }
  if (copies_) return absl::OkStatus();
  const absl::Status opened = OpenCopies(start);
  if (opened.ok()) {
    log::Info("this node does not share the folder of rank ", place.writer,
              ", which writes the run's files: checkpoints are also saved in this node's ", options_.path);
  } else {
    log::Warning("cannot save checkpoints on this node: ", std::string(opened.message()));
  }
  return absl::OkStatus();
}

absl::Status RunFiles::OpenCopies(const Start& start) {
  MT_RETURN_IF_ERROR(CheckRunFolder(options_.path));
  MT_RETURN_IF_ERROR(ClearFolder(start));
  RemoveAbortedSaves(options_.path);
  copies_ = std::make_unique<CheckpointWriter>(WriterOptions(start));
  return absl::OkStatus();
}

absl::Status RunFiles::Record(const FinishedStep& step, TimePoint now) {
  if (options_.remember) {
    recent_.push_back(step);
    if (recent_.size() > kRecentSteps) recent_.pop_front();
  }
  return folder_ ? Write(step, now) : absl::OkStatus();
}

void RunFiles::Forget(const std::optional<FinishedStep>& last) {
  recent_.clear();
  if (last) recent_.push_back(*last);
}

absl::Status RunFiles::Write(const FinishedStep& step, TimePoint now) {
  const StepRecord& record = step.record;
  return Keep(folder_->Record(step,
                              checkpoints::LedgerStep{.step = record.step,
                                                      .epoch = record.epoch - 1,
                                                      .generation = step.generation,
                                                      .world = step.world,
                                                      .ids = options_.sample_ids(record.step),
                                                      .gathered = step.gathered,
                                                      .loss = record.loss,
                                                      .skipped = record.skipped},
                              now));
}

/// Writes later what the disk has no space for now.
absl::Status RunFiles::Keep(const absl::Status& written) {
  return AwaitRoom(written, [this] { return folder_->Flush(); });
}

absl::Status RunFiles::AwaitRoom(absl::Status done, const std::function<absl::Status()>& again) const {
  bool waited = false;
  while (MayTakeBytesLater(done) && options_.await_room) {
    if (!options_.await_room(done)) return absl::UnavailableError(done.message());
    waited = true;
    done = again();
  }
  if (waited && done.ok()) log::Info(options_.path, " can be written again: the run continues");
  return done;
}

absl::Status RunFiles::Record(const EvalRecord& record, const ConfusionMatrix& matrix) {
  return folder_ ? Keep(folder_->Record(record, matrix)) : absl::OkStatus();
}

void RunFiles::AddPicture(std::string_view tag, int64_t steps, const std::string& path) {
  constexpr size_t kMaxBytes = 16 << 20;
  if (!folder_ || !options_.tensorboard) return;
  // At the number of the last of these steps: a writer that continues from here rewinds everything after it.
  const int64_t step = std::max<int64_t>(steps - 1, 0);
  if (const auto png = ReadFileStart(path, kMaxBytes); png.ok()) folder_->AddPicture(tag, step, *png);
}

absl::Status RunFiles::Flush() { return folder_ ? Keep(folder_->Flush()) : absl::OkStatus(); }

absl::Status RunFiles::Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best, TimePoint began) {
  // A run that continues from this checkpoint finds the records of the steps before it.
  MT_RETURN_IF_ERROR(Flush());
  const int64_t steps = snapshot.step, bytes = snapshot.TensorBytes();
  Writer().Save(std::move(snapshot), best);
  if (!folder_) return absl::OkStatus();
  return folder_->Record(
      SaveRecord{.steps = steps, .bytes = bytes, .stall = ToSeconds(MonotonicNow() - began)});
}

absl::Status RunFiles::Wait() {
  if (!saves()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(Writer().Wait());
  return folder_ ? Keep(folder_->RecordSaved()) : absl::OkStatus();
}

std::string RunFiles::LastCheckpoint() {
  Wait().IgnoreError();  // its failure has been logged
  const auto search = checkpoints::FindNewest(checkpoints::RealFiles(), options_.path);
  return search.ok() && search->newest ? absl::StrCat("The last good checkpoint is ", search->newest->path)
                                       : absl::StrCat("No checkpoint exists in ", options_.path);
}

}  // namespace mtrun::trainers
