#include "trainers/run/loop/run_end.h"

#include <csignal>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/membership/drain.h"
#include "trainers/run/files/disk_space_wait.h"
#include "trainers/run/loop/best_weights.h"
#include "trainers/run/loop/state_sync.h"
#include "trainers/run/records/summary.h"

namespace mtrun::trainers {
namespace {

/// Returns whether a save failed because the disk could not be written or was not waited for any more.
bool IsRefusedByDisk(const absl::Status& saved) {
  return MayTakeBytesLater(saved) || absl::IsUnavailable(saved);
}

/// Ignores a failed lock, because some file systems have none (ENOLCK, ENOSYS, EOPNOTSUPP, of which
/// ErrnoStatus makes kInternal). Two saves at the same time do less harm than a state that is not saved.
absl::StatusOr<UniqueFd> AwaitTurn(absl::StatusOr<UniqueFd> lock) {
  if (!absl::IsInternal(lock.status())) return lock;
  log::Warning("saving the last state without a lock: ", std::string(lock.status().message()));
  return UniqueFd();
}

}  // namespace

bool WaitsForDisk(std::optional<TimePoint> told, Duration grace, TimePoint now) {
  return told && now - *told < grace * 3 / 4;
}

// ---- the run is complete

absl::StatusOr<Outcome> RunEnd::Finish(int writer, const Test& test) {
  bool& finished = run_.replica.progress().finished;
  // The barrier below may have ended for some before their membership broke; now all learn that.
  MT_ASSIGN_OR_RETURN(const std::optional<int> written, FirstMember(run_.membership.group(), finished));
  MT_RETURN_IF_ERROR(run_.lease.Await("the results"));
  if (!written) MT_RETURN_IF_ERROR(WriteResults(writer, test));
  // No member is done before everything is on the disk: a successor of rank 0 would have to write it.
  MT_RETURN_IF_ERROR(run_.Barrier());
  finished = true;
  if (!written && run_.membership.assignment().rank == 0) {
    run_.progress.Print(absl::StrCat("\nweights, metrics, checkpoints and this report are in ",
                                     run_.in.options.model_folder));
  }
  MT_RETURN_IF_ERROR(run_.membership.ReportDone(run_.steps()));
  return Outcome();
}

absl::Status RunEnd::WriteResults(int writer, const Test& test) {
  const TrainInputs& in = run_.in;
  RunReport report = run_.Report();
  if (run_.notable_after == run_.steps()) report.notable = run_.notable;
  if (test) {
    MT_RETURN_IF_ERROR(TestBest(writer, test, report));
    report.seconds = run_.replica.seconds();
  }
  run_.progress.Print("\n" + SummaryText(report, run_.progress.columns().value_or(0)));
  if (!run_.files.Wait().ok()) {
    MT_RETURN_IF_ERROR(run_.Save());
    // The failure has been logged; the weights alone may still fit.
    run_.files.Wait().IgnoreError();
  }
  if (!run_.files.writes()) return absl::OkStatus();
  if (const auto best = report.BestSteps()) {
    MT_RETURN_IF_ERROR(run_.files.WithRoom([&] {
      return KeepBestOf(run_.state, in.options.model_folder, *best, report.best_epoch, in.metadata);
    }));
  }
  return run_.files.WithRoom([&] { return in.finish(run_.state, report); });
}

/// Tests the best epoch's weights. They come from the writer's folder or its checkpoint of that epoch. If
/// neither has them, the final weights are tested.
absl::Status RunEnd::TestBest(int writer, const Test& test, RunReport& report) {
  const int rank = run_.membership.assignment().rank;
  BorrowedWeights weights(run_.state);
  std::string found;
  if (rank == writer)
    found = weights.Load(run_.in.options.model_folder, report.BestSteps(), report.best_epoch);
  MT_RETURN_IF_ERROR(weights.Share(run_.membership.group(), rank, writer, found));
  std::optional<TrainState::Averaged> averaged;
  if (found.empty()) averaged.emplace(run_.state);
  MT_ASSIGN_OR_RETURN(const Evaluation evaluation, test());
  report.matrix = evaluation.matrix;
  report.test_loss = evaluation.loss;
  report.notable = evaluation.notable;
  report.test_top5 = evaluation.top5;
  report.tested_epoch = found.empty() ? 0 : report.best_epoch;
  return absl::OkStatus();
}

// ---- this worker leaves

absl::StatusOr<Outcome> RunEnd::Leave(Decision::Cause cause) {
  Membership& membership = run_.membership;
  // If no generation can follow, the reason can be another worker's.
  const std::string why =
      membership.wants_drain() ? membership.drain_wish() : "another worker was asked to leave";
  if (cause == Decision::Cause::kVotedToLeave) {
    // The next writer may open the files before this one's last checkpoint is on the disk.
    run_.files.Flush().IgnoreError();
    membership.ReportLeaving(why);
    const std::string where = Describe({Action::kLeave, cause}, run_.lifecycle, run_.replica.position());
    return Outcome{.complete = false, .stopped = absl::StrCat(why, ": ", where)};
  }
  const absl::Status saved = run_.files.Wait();
  if (run_.files.writes()) MT_RETURN_IF_ERROR(saved);  // for a copy it is enough that it was logged
  MT_RETURN_IF_ERROR(run_.Barrier());
  return StopRun(why);
}

absl::StatusOr<Outcome> RunEnd::LeaveWhileWaiting(const std::string& why) {
  Membership& membership = run_.membership;
  absl::Status lease, saved;
  // A spare of a finished job holds a state that is not needed, and its lease is not renewed.
  if (run_.replica.exists() && !membership.work_is_done() && !membership.others_continue()) {
    lease = run_.lease.AwaitOutside("the last checkpoint");
    if (absl::IsAborted(lease)) return lease;
    if (lease.ok()) saved = SaveBeforeLeaving();
    // mtrun knows whether other nodes continue, and its exit status says so.
    if (!saved.ok() && !(IsRefusedByDisk(saved) && membership.elastic())) return saved;
    if (!saved.ok())
      log::Error("could not save step ", run_.steps(), " on this node: ", std::string(saved.message()));
  }
  if (saved.ok() && !membership.others_continue()) return StopRun(why, lease);
  membership.ReportLeaving(why);
  return Outcome{
      .complete = false,
      .stopped = absl::StrCat(why, ": left at step ", run_.steps(), "; the job continues on other nodes",
                              saved.ok() ? "" : ", if there are any")};
}

/// Stops the whole run here. `saved`: OK if its state is on the disk.
Outcome RunEnd::StopRun(const std::string& why, const absl::Status& saved) {
  Outcome outcome{.complete = false, .stopped = why, .signal = DrainSignal() != 0 ? DrainSignal() : SIGTERM};
  if (!run_.membership.work_is_done()) {
    absl::StrAppend(&outcome.stopped, ": stopped at step ", run_.steps(), " of ", run_.length.steps,
                    saved.ok() ? "" : absl::StrCat(", not saved: ", saved.message()));
    if (run_.steps() > 0)
      absl::StrAppend(&outcome.stopped, "; the same command continues from ", run_.in.options.model_folder);
  }
  run_.membership.ReportLeaving(why);
  return outcome;
}

/// Saves the state. If the disk cannot be written, tries again until the job is known to continue on other
/// nodes (OK: nothing has to be saved), a generation with this worker has formed (kAborted), or too little of
/// the grace is left.
absl::Status RunEnd::SaveBeforeLeaving() {
  const Membership& membership = run_.membership;
  const auto give_up = [this, &membership] {
    return membership.others_continue() || membership.work_is_done() || membership.next_is_here() ||
           !WaitsForDisk(membership.told_to_go_at(), run_.in.grace, MonotonicNow());
  };
  DiskSpaceWait wait(give_up, [this] { run_.StillHere(); });
  while (true) {
    const absl::Status saved = SaveUnlessSaved();
    if (!IsRefusedByDisk(saved)) return saved;
    if (wait(saved)) continue;
    if (membership.others_continue()) return absl::OkStatus();
    return membership.next_is_here() ? absl::AbortedError(saved.message()) : saved;
  }
}

/// Saves the state unless it is saved. Others that hold it, here or on other nodes, may be told to leave at
/// the same time or may have died. The first one saves it for all.
absl::Status RunEnd::SaveUnlessSaved() {
  const std::string& path = run_.in.options.model_folder;
  MT_RETURN_IF_ERROR(CheckRunFolder(path));
  MT_ASSIGN_OR_RETURN(const UniqueFd turn, AwaitTurn(run_.in.lock_folder(path)));
  const std::string ledger = absl::StrCat(path, "/", checkpoints::kLedgerFile);
  MT_ASSIGN_OR_RETURN(const std::optional<uint64_t> run, checkpoints::RunOfLedger(ledger));
  if (run && *run != run_.replica.run()) return absl::OkStatus();  // the folder belongs to another run now
  MT_ASSIGN_OR_RETURN(const std::vector<checkpoints::SavedPosition> complete,
                      checkpoints::CompletePositions(checkpoints::RealFiles(), path));
  std::vector<checkpoints::Position> saved;
  for (const checkpoints::SavedPosition& each : complete) saved.push_back(each.position);
  switch (LastSaveOf(run_.replica.exists(), run_.replica.position(), run_.replica.generation(), saved,
                     checkpoints::EndOfLedger(ledger).value_or(checkpoints::LedgerEnd{}))) {
    case LastSave::kNone:
      return absl::OkStatus();
    case LastSave::kWriter:
      MT_RETURN_IF_ERROR(run_.files.BecomeWriter(run_.FilesStart()));
      break;
    case LastSave::kBeside:
      run_.files.SaveBeside(run_.FilesStart());
      break;
  }
  MT_RETURN_IF_ERROR(run_.Save());
  return run_.files.Wait();
}

}  // namespace mtrun::trainers
